"""from_torch: linear algebra of small matrices, with gradients, beside PyTorch on both engines."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='needs PyTorch: pip install -e ".[test,frontends]"')

from torch import nn  # noqa: E402
from torch.nn.utils.parametrizations import orthogonal  # noqa: E402

from prograd import CompileError, Run, from_torch, ops, sgd  # noqa: E402

linalg = torch.linalg
X = torch.randn(4, 8, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def positive(x: Any) -> Any:
    return x @ x.mT + torch.eye(8, dtype=x.dtype)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "solve": lambda x: linalg.solve(positive(x), x),
    "solve for vectors": lambda x: linalg.solve(positive(x), x[..., 0]),
    "solve from the right": lambda x: linalg.solve(positive(x), x, left=False),
    "inv": lambda x: linalg.inv(positive(x)) + torch.inverse(positive(x)),
    "inv_ex": lambda x: linalg.inv_ex(positive(x))[0],
    "cholesky": lambda x: linalg.cholesky(positive(x)),
    "cholesky above": lambda x: linalg.cholesky(positive(x), upper=True),
    "cholesky of a triangle": lambda x: linalg.cholesky(positive(x) + x.detach().triu(1)),
    "torch.cholesky": lambda x: torch.cholesky(positive(x)),
    "cholesky_solve": lambda x: torch.cholesky_solve(x, linalg.cholesky(positive(x))),
    "cholesky_solve above": lambda x: torch.cholesky_solve(x, linalg.cholesky(positive(x)).mT, upper=True),
    "cholesky_inverse": lambda x: torch.cholesky_inverse(linalg.cholesky(positive(x))),
    "det": lambda x: linalg.det(x),
    "logdet": lambda x: torch.logdet(positive(x)),
    "slogdet": lambda x: linalg.slogdet(x)[1] * linalg.slogdet(x)[0],
    "solve_triangular": lambda x: linalg.solve_triangular(positive(x).tril(), x, upper=False),
    "solve_triangular above": lambda x: linalg.solve_triangular(positive(x).triu(), x, upper=True, unitriangular=True),
    "solve_triangular from the right": lambda x: linalg.solve_triangular(positive(x).triu(), x, upper=True, left=False),
    "triangular_solve": lambda x: torch.triangular_solve(x, positive(x).triu())[0],
    "matrix_exp": lambda x: linalg.matrix_exp(0.3 * x),
    "matrix_exp of large matrices": lambda x: linalg.matrix_exp(5 * (x - x.mT)),
    "matrix_power": lambda x: linalg.matrix_power(positive(x), -2),
    "householder_product": lambda x: linalg.householder_product(x, x[..., 0]),
    "householder_product of few": lambda x: linalg.householder_product(x[..., :5], x[..., 0, :3]),
    "cummax": lambda x: torch.cummax(x, 1)[0] * torch.cummax(x, 1)[1],
    "cummax of equals": lambda x: torch.cummax((2 * x).round(), -1)[1] * x,
    "cummin": lambda x: x.cummin(0)[0],
    "logcumsumexp": lambda x: torch.logcumsumexp(100 * x, 1),
    "erfinv": lambda x: torch.erfinv(0.99 * torch.tanh(3 * x)),
    "erfinv of zeros": lambda x: torch.erfinv(x * 0),
    "diag of a vector": lambda x: torch.diag(x[0, 0]) + torch.diag(x[0, 1, 1:], 1) + torch.diag(x[0, 1, 2:], -2),
    "divisor_override": lambda x: nn.functional.avg_pool2d(x, 3, 2, 1, divisor_override=5),
    "divisor_override of part windows": lambda x: nn.functional.avg_pool2d(x, 3, 2, ceil_mode=True, divisor_override=2),
    "new_full": lambda x: x * x.new_full((8,), 2.0),
}


class Of(nn.Module):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function, self.w = function, nn.Parameter(torch.randn(8, 8, dtype=torch.float64))

    def forward(self, x: Any) -> Any:
        return self.function(x * self.w)


def require_agreement(module: nn.Module, x: Any, engine: str) -> None:
    """Compare a step of descent on the mean of sines with PyTorch's."""
    program = from_torch(module, {"x": x})
    program.fetch("y", program["output"])
    pairs = program.minimize(ops.mean(ops.sin(program["output"])), sgd(0.0))
    for w, gradient in pairs:
        program.fetch(w.name, gradient)
    wanted = module(x)
    torch.sin(wanted).mean().backward()
    found = Run(program.compile(), engine=engine).step({"x": x.numpy()})
    np.testing.assert_allclose(found["y"], wanted.detach(), rtol=1e-8, atol=1e-9)
    there = dict(module.named_parameters())
    for w, _ in pairs:
        imported = program.states[w.name].imported
        gradient = there[imported.names[0]].grad.permute(tuple(imported.axes)).numpy()
        np.testing.assert_allclose(found[w.name], gradient, rtol=1e-7, atol=1e-9 + 1e-9 * abs(gradient).max())


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_matrices_is_that_of_pytorch(name: str, engine: str):
    require_agreement(Of(FUNCTIONS[name]), X, engine)


ORTHOGONAL = {
    "by an exponential": {"orthogonal_map": "matrix_exp"},
    "by Cayley": {"orthogonal_map": "cayley"},
    "by reflections": {"orthogonal_map": "householder"},
    "without a base": {"use_trivialization": False},
}


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("columns", [8, 5])
@pytest.mark.parametrize("name", ORTHOGONAL)
def test_an_orthogonal_parametrization_is_that_of_pytorch(name: str, columns: int, engine: str):
    torch.manual_seed(0)
    module = orthogonal(nn.Linear(8, columns).double(), **ORTHOGONAL[name])
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.1 * torch.randn_like(p))
    require_agreement(module, X[0], engine)


def test_the_inverse_of_the_error_function_is_exact_to_its_ends():
    module = Of(torch.erfinv).requires_grad_(False)
    module.w.fill_(1.0)
    x = torch.tensor([-1.0, 1.0, 2.0, 1 - 1e-16, -1 + 1e-12, 1e-300, 0.5, 0.999], dtype=torch.float64).expand(4, 8, 8)
    found = Run(from_torch(module, {"x": x}).compile()).predict({"x": x.numpy()})["output"]
    np.testing.assert_allclose(found, torch.erfinv(x), rtol=1e-12)


OUTSIDE = "compute it outside of forward, and give the result as an input or a buffer"
INVERSE = "for columns of full rank, use torch.linalg.solve(x.mT @ x, x.mT)"
LACKING: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "qr": (
        lambda x: linalg.qr(x)[0],
        "aten.linalg_qr.default",
        "orthogonalise by q = torch.linalg.solve_triangular(torch.linalg.cholesky(x.mT @ x), x.mT, upper=False).mT, or "
        "by torch.nn.utils.parametrizations.orthogonal",
    ),
    "svd": (lambda x: linalg.svd(x)[1], "aten._linalg_svd.default", OUTSIDE),
    "eigh": (lambda x: linalg.eigh(x)[0], "aten._linalg_eigh.default", OUTSIDE),
    "pinv": (linalg.pinv, "aten.linalg_pinv.atol_rtol_tensor", INVERSE),
    "pinverse": (torch.pinverse, "aten.linalg_pinv.atol_rtol_float", INVERSE),
}


@pytest.mark.parametrize("name", LACKING)
def test_decompositions_without_counterpart_name_what_to_do_instead(name: str):
    function, operator, remedy = LACKING[name]
    with pytest.raises(CompileError) as caught:
        from_torch(Of(function), {"x": X})
    line = Of.forward.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        f"from_torch: 1 operator cannot be imported: {operator}, used 1 time, first in the module at "
        f"test_decompositions.py:{line}: has no counterpart; {remedy}"
    )


def least_squares(x: Any) -> Any:
    return linalg.lstsq(x, x[..., :3]).solution


def test_least_squares_name_their_normal_equations():
    with pytest.raises(CompileError) as caught:
        from_torch(Of(least_squares), {"x": X})
    line = least_squares.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        "torch.export cannot export Of: aten.linalg_lstsq.default has no counterpart; solve the normal equations by "
        f"torch.linalg.solve(a.mT @ a, a.mT @ b) (at test_decompositions.py:{line})"
    )


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize(
    "remedy",
    [
        lambda x: linalg.solve(x.mT @ x, x.mT),
        lambda x: linalg.solve(x.mT @ x, x.mT @ x[..., :3]),
        lambda x: linalg.solve_triangular(linalg.cholesky(x.mT @ x), x.mT, upper=False).mT,
    ],
)
def test_what_is_named_instead_comes_in(remedy: Callable[[Any], Any], engine: str):
    require_agreement(Of(lambda x: remedy(x + 2 * torch.eye(8, dtype=x.dtype))), X, engine)

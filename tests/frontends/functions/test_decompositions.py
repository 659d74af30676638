"""from_torch: linear algebra of small matrices, with gradients, beside PyTorch on both engines."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from subjects.commands import told
from torch import nn
from torch.nn.utils.parametrizations import orthogonal

from prograd import CompileError, Run, from_torch, ops, sgd

linalg = torch.linalg
X = torch.randn(4, 8, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def positive(x: Any) -> Any:
    return x @ x.mT + torch.eye(8, dtype=x.dtype)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "solve": lambda x: linalg.solve(positive(x), x),
    "solve for vectors": lambda x: linalg.solve(positive(x), x[..., 0]),
    "solve from the right": lambda x: linalg.solve(positive(x), x, left=False),
    "inv": lambda x: linalg.inv(positive(x)) + torch.inverse(positive(x)),
    "inv_ex": lambda x: linalg.inv_ex(positive(x))[0] + linalg.inv_ex(positive(x))[1][:, None, None],
    "solve_ex": lambda x: linalg.solve_ex(positive(x), x)[0] + linalg.cholesky_ex(positive(x))[1].sum(),
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


TALL = torch.randn(3, 9, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
WIDE = TALL.mT.contiguous()
LOW = TALL[..., :2] @ TALL[:, :2, :]
"""Matrices of rank 2."""
DECOMPOSITIONS: dict[str, Callable[[Any], Any]] = {
    "qr": lambda x: linalg.qr(x)[0] @ linalg.qr(x)[1].sin(),
    "torch.qr": lambda x: torch.qr(x)[1],
    "r of qr": lambda x: linalg.qr(x, mode="reduced").R,
    "svd": lambda x: without_signs(*linalg.svd(x, full_matrices=False)),
    "torch.svd": lambda x: without_signs(torch.svd(x)[0], torch.svd(x)[1], torch.svd(x)[2].mT),
    "whole svd": lambda x: without_signs(*narrowed(*linalg.svd(x))),
    "svdvals": linalg.svdvals,
    "singular values below a limit": lambda x: (linalg.svdvals(x) - 1).relu(),
    "eigh": lambda x: without_signs(*turned(*linalg.eigh(gram(x)))),
    "eigh of a triangle": lambda x: linalg.eigh(gram(x) + gram(x).tril(-1), UPLO="U")[0],
    "eigvalsh": lambda x: linalg.eigvalsh(gram(x)),
    "pinv": linalg.pinv,
    "pinv with a tolerance": lambda x: linalg.pinv(x, rtol=0.5) + linalg.pinv(x, atol=1.5) + linalg.pinv(x, 0.4),
    "pinv of symmetric matrices": lambda x: linalg.pinv(gram(x), hermitian=True),
    "pinverse": torch.pinverse,
    "lstsq": lambda x: linalg.lstsq(x, x[..., :2].sin()).solution,
    "lstsq of vectors": lambda x: linalg.lstsq(x, x[..., 0].sin())[0],
    "residuals": lambda x: linalg.lstsq(x, x[..., :2].sin(), driver="gels").residuals.sum() + x,
    "residuals of the default": lambda x: linalg.lstsq(x, x[..., :2].sin()).residuals.sum() + x,
    "lstsq by gelsd": lambda x: linalg.lstsq(x, x[..., :2].sin(), driver="gelsd").singular_values + x.mean(),
    "matrix_rank": lambda x: (linalg.matrix_rank(x) + linalg.lstsq(x, x).rank)[:, None, None] * x,
    "nuclear norm": lambda x: linalg.matrix_norm(x, "nuc"),
    "torch.norm": lambda x: torch.norm(x, "nuc", dim=(-2, -1)),
    "spectral norm": lambda x: linalg.matrix_norm(x, 2) + linalg.norm(x, -2, dim=(-2, -1)),
    "cond": lambda x: linalg.cond(x) * linalg.cond(x, -2),
    "cond of another norm": lambda x: (
        linalg.cond(gram(x.detach()), 1) + linalg.cond(x.detach(), "fro") * x.mean()
        if x.shape[-2] == x.shape[-1]
        else x
    ),
}
"""Singular vectors and eigenvectors have arbitrary signs, which these functions do not show."""


def gram(x: Any) -> Any:
    return x.mT @ x if x.shape[-2] >= x.shape[-1] else x @ x.mT


def without_signs(u: Any, s: Any, vh: Any) -> Any:
    return torch.cat([((u * s.cos()[..., None, :]) @ vh).flatten(1), s, u.square().flatten(1)], 1)


def narrowed(u: Any, s: Any, vh: Any) -> tuple[Any, Any, Any]:
    complete = (u @ u.mT).detach().mean() + (vh.mT @ vh).detach().mean()
    return u[..., : s.shape[-1]], s * complete, vh[..., : s.shape[-1], :]


def turned(values: Any, vectors: Any) -> tuple[Any, Any, Any]:
    return vectors, values, vectors.mT


class Scaled(nn.Module):
    def __init__(self, function: Callable[[Any], Any], x: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function = function
        self.w = nn.Parameter(torch.rand(x.shape[1:], dtype=x.dtype) + 0.5)

    def forward(self, x: Any) -> Any:
        return self.function(x * self.w)


@pytest.mark.parametrize(
    ("x", "engine"),
    [(TALL, "reference"), (WIDE, "native"), (X, "reference")],
    ids=["tall-reference", "wide-native", "square-reference"],
)
@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_an_orthogonal_decomposition_is_that_of_pytorch(name: str, x: Any, engine: str):
    require_agreement(Scaled(DECOMPOSITIONS[name], x), x, engine)


@pytest.mark.parametrize("name", ["pinv", "pinverse", "pinv of symmetric matrices", "matrix_rank", "svdvals"])
def test_matrices_without_full_rank_are_taken_as_by_pytorch(name: str):
    function = DECOMPOSITIONS[name]
    module = Of(lambda x: 0 * x.mean() + function(LOW + 0 * x.mean())).requires_grad_(False)
    found = Run(from_torch(module, {"x": X}).compile()).predict({"x": X.numpy()})["output"]
    np.testing.assert_allclose(found, function(LOW), atol=1e-10)


def test_the_complete_factors_are_orthogonal_and_those_of_pytorch():
    module = Of(lambda x: linalg.qr(TALL + 0 * x[0, 0, 0], mode="complete")[0]).requires_grad_(False)
    found = Run(from_torch(module, {"x": X}).compile()).predict({"x": X.numpy()})["output"]
    np.testing.assert_allclose(found, linalg.qr(TALL, mode="complete")[0], atol=1e-12)


def test_a_decomposition_without_counterpart_names_what_to_do_instead():
    assert told(CompileError, lambda: from_torch(Of(lambda x: linalg.eigvals(x).real), {"x": X})).endswith(
        "has no counterpart; for symmetric matrices use torch.linalg.eigh; else compute it outside of forward, and "
        "give the result as an input or a buffer"
    )


def test_a_tolerance_must_be_a_number():
    with pytest.raises(CompileError) as caught:
        from_torch(Of(lambda x: linalg.pinv(x, atol=x.detach().mean())), {"x": X})
    assert str(caught.value).endswith("pinv with a tensor as atol or rtol has no counterpart; give a number")


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

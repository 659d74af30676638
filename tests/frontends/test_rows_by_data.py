"""from_torch: rows that masks pick, and tables that are cut to a length of the input, beside PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from compiler import CompileError
from prograd import Run, from_torch, ops, sgd

X = torch.randn(32, 64, generator=torch.Generator().manual_seed(1))
LONG = torch.randn(4, 8, 64, generator=torch.Generator().manual_seed(2))
FILE = "test_rows_by_data.py"


class Of(nn.Module):
    """A module with parameters and a table that computes a function of itself and its inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function = function
        self.w, self.p = nn.Parameter(torch.randn(64)), nn.Parameter(torch.randn(1, 20, 64))
        self.register_buffer("table", torch.randn(20, 64), persistent=False)

    def forward(self, *operands: Any) -> Any:
        return self.function(self, *operands)


def require_agreement(function: Callable[..., Any], *xs: Any, engine: Any, length: bool = False) -> None:
    """Compare the result and the parameters after a step with those of PyTorch."""
    module, names = Of(function), [f"x{i}" for i in range(len(xs))]
    symbols = {"x0": {1: "t"}} if length else None
    program = from_torch(module, dict(zip(names, xs, strict=True)), symbols=symbols)
    program.fetch("out", program[program.outputs_of_module[0]])
    program.minimize(ops.sum(ops.square(program[program.outputs_of_module[0]])), sgd(1e-3))
    run = Run(program.compile(**({"t": xs[0].shape[1]} if length else {})), engine=engine)
    found = run.step({name: x.numpy() for name, x in zip(names, xs, strict=True)})["out"]
    wanted = module(*xs)
    np.testing.assert_allclose(found, wanted.detach(), rtol=1e-4, atol=1e-4)
    torch.square(wanted).sum().backward()
    for name, parameter in module.named_parameters():
        step = 0 if parameter.grad is None else 1e-3 * parameter.grad
        np.testing.assert_allclose(run.state[name], (parameter - step).detach(), rtol=1e-3, atol=1e-4)


def doubled_below_zero(m: Any, x: Any) -> Any:
    y = (x * m.w).clone()
    y[y < 0] *= 2
    return y


def rows_of_another(m: Any, x: Any, z: Any) -> Any:
    y, mask = x * m.w, x[:, 0] > 0
    y[mask] = (z * m.w)[mask] + 1
    return y


def added_in_a_column(m: Any, x: Any) -> Any:
    y = (x * m.w).clone()
    y[x[:, 0] > 0, 1] += 3
    return y


def filled(m: Any, x: Any) -> Any:
    y = (x * m.w).clone()
    y[x[:, 0] > 0] = m.w
    y[x[:, 1] > 0] = 0.5
    return y


MASKS = {
    "written by a mask": (doubled_below_zero, X),
    "written by rows of another": (rows_of_another, X, X + 1),
    "written in a column": (added_in_a_column, X),
    "written with a row and a number": (filled, X),
    "mean": (lambda m, x: (x * m.w)[x > 0].mean(), X),
    "logarithms of what is positive": (lambda m, x: (x * m.w)[x * m.w > 0].log().mean(), X),
    "selected": (lambda m, x: torch.masked_select(x * m.w, x[:, :1] > 0).pow(2).mean(), X),
    "each row by itself": (lambda m, x: torch.softmax((x * m.w)[x[:, 0] > 0], -1).square().sum(), X),
    "constant mask": (lambda m, x: (x * m.w)[:, torch.arange(64) % 3 > 0] * 2, X),
    "constant mask of rows": (lambda m, x: (x * m.w)[torch.arange(32) % 3 > 0], X),
}


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("case", MASKS)
def test_rows_that_a_mask_picks_are_those_of_pytorch(case: str, engine: Any):
    require_agreement(*MASKS[case], engine=engine)


LENGTHS = {
    "positions": lambda m, x: x + m.p[:, : x.shape[1]],
    "a table": lambda m, x: x * m.w + m.table[: x.shape[1]],
    "a table from a number": lambda m, x: x * m.w + m.table[2 : 2 + x.shape[1]],
    "the end of a table": lambda m, x: x * m.w + m.table[-x.shape[1] :],
    "a triangle": lambda m, x: torch.ones(x.shape[1], x.shape[1]).triu(1) @ (x * m.w),
    "a diagonal": lambda m, x: torch.eye(x.shape[1]) @ (x * m.w),
    "a comparison of positions": lambda m, x: (
        torch.arange(x.shape[1])[:, None] >= torch.arange(x.shape[1])
    ).float() @ (x * m.w),
    "waves": lambda m, x: x * m.w + torch.arange(x.shape[1]).float().sin()[:, None],
    "from the end": lambda m, x: (x * m.w)[:, torch.tensor([-1, 0])],
}  # fmt: skip


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("case", LENGTHS)
def test_constants_of_the_length_of_an_input_are_those_of_pytorch(case: str, engine: Any):
    require_agreement(LENGTHS[case], LONG, engine=engine, length=True)


def test_rows_by_data_from_the_end_of_a_symbol_are_those_of_pytorch():
    require_agreement(lambda m, x, i: (x * m.w)[:, i], LONG, torch.tensor([-1, 0]), engine="reference", length=True)


def returned(m: Any, x: Any) -> Any:
    return x[x > 0]


def counted(m: Any, x: Any) -> Any:
    return (x * m.w).sum() * x[x > 0].numel()


def listed(m: Any, x: Any) -> Any:
    return torch.unique(x)


@pytest.mark.parametrize(
    ("function", "operator", "reason"),
    [
        (
            returned,
            "aten.index.Tensor",
            "reads rows that a mask of data picks, whose number no shape states; keep all rows and use "
            "torch.where(mask, x, 0)",
        ),
        (counted, "aten.mul.Tensor", "reads a number that is known only when the module runs"),
        (listed, "aten._unique2.default", "has no counterpart"),
    ],
)
def test_what_needs_the_number_of_rows_is_refused_with_its_line(function: Any, operator: str, reason: str):
    with pytest.raises(CompileError) as caught:
        from_torch(Of(function), {"x": X})
    line = Of.forward.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        f"from_torch: 1 operator cannot be imported: {operator}, used 1 time, first in the module at {FILE}:{line}: "
        f"{reason}"
    )

"""Conditions and loops of PyTorch become blocks inside ops, with PyTorch's results and gradients."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch._higher_order_ops import map as map_rows
from torch._higher_order_ops import scan, while_loop

import prograd
from compiler import CompileError
from frontends.agreement import agreement
from prograd import Run, from_torch, ops

WIDTH = 64


class Layer(torch.nn.Module):
    """A layer that modules below apply in branches and loops."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(WIDTH, WIDTH)


class Chosen(Layer):
    """One of two functions, by the data."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.layer(x).relu(), lambda x: x * self.layer.bias, (x,))


class Nested(Layer):
    """A condition inside a condition."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.mean() < 1, lambda x: self.layer(x).sin(), lambda x: x.exp(), (x,))

        return torch.cond(x.sum() > 0, inner, lambda x: x * self.layer.bias, (x,))


class Counted(Layer):
    """Four trips through a layer."""

    def by_python(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = torch.tanh(self.layer(x))
        return x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def trip(i: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return i + 1, torch.tanh(self.layer(x))

        return while_loop(lambda i, x: i < 4, trip, (torch.tensor(0), x))[1]


class Until(Layer):
    """Halves until the largest element is below a half."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return while_loop(lambda x: x.abs().max() > 0.5, lambda x: (self.layer(x) * 0.5,), (x,))[0]


class AtMost(Layer):
    """Ends by the data, or after seven trips."""

    def by_python(self, x: torch.Tensor) -> torch.Tensor:
        trips = 0
        while trips < 7 and x.abs().max() > 0.5:
            trips, x = trips + 1, torch.tanh(self.layer(x)) * 0.9
        return x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def going(i: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return (i < 7) & (x.abs().max() > 0.5)

        def trip(i: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return i + 1, torch.tanh(self.layer(x)) * 0.9

        return while_loop(going, trip, (torch.tensor(0), x))[1]


class Rows(Layer):
    """A recurrent layer, forwards or backwards; rows are on axis 1."""

    def __init__(self, *, reverse: bool) -> None:
        super().__init__()
        self.reverse = reverse

    def forward(self, x: torch.Tensor) -> Any:
        def step(h: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            h = torch.tanh(self.layer(h) + row)
            return h, h * h

        return scan(step, x.new_zeros(x.shape[0], WIDTH), x, dim=1, reverse=self.reverse)


class Mapped(Layer):
    """A layer for each row."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return map_rows(lambda row: self.layer(row).sin(), x)


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (Chosen, (3, WIDTH)),
        (Nested, (3, WIDTH)),
        (Counted, (3, WIDTH)),
        (AtMost, (3, WIDTH)),
        (lambda: Rows(reverse=False), (3, 5, WIDTH)),
        (lambda: Rows(reverse=True), (3, 5, WIDTH)),
        (Mapped, (3, 5, WIDTH)),
    ],
    ids=["cond", "nested", "counted", "at most", "scan", "reversed", "map"],
)
@pytest.mark.parametrize("sign", [1, -1], ids=["positive", "negative"])
def test_control_flow_predicts_and_trains_as_its_module(make: Any, shape: Any, sign: int, engine: Any):
    torch.compiler.reset()  # else PyTorch's loops may use what it compiled for the module of another test
    x = sign * (torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 0.5)
    module = make().double()
    judge = copy.deepcopy(module)
    if isinstance(judge, Counted | AtMost):  # PyTorch 2.13 computes other gradients of while_loop than of Python's loop
        judge.__class__ = type("ByPython", (type(judge),), {"forward": type(judge).by_python})
    found = agreement(module, {"x": x}, engine=engine, judge=judge)
    assert max(found.outputs, found.loss, found.gradients) < 1e-9, found


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_loop_that_ends_by_its_data_predicts(engine: Any):
    module = Until().double()
    x = 100 * torch.randn(32, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    run = Run(from_torch(module, {"x": x}, batch="batch").compile(batch=32), engine=engine)
    np.testing.assert_allclose(run.predict(x.numpy())["output"], module(x).detach().numpy(), rtol=1e-9, atol=1e-12)


def test_a_loop_without_a_known_bound_has_no_gradient():
    program = from_torch(Until(), {"x": torch.ones(3, WIDTH)}, batch="batch")
    with pytest.raises(prograd.ProgramError) as error:
        program.minimize(ops.mean(program["output"]), prograd.sgd(0.1))
    assert "max_trips" in str(error.value)


def test_weights_of_a_loop_are_stored_as_its_matrix_products_read_them():
    program = from_torch(Counted(), {"x": torch.ones(3, WIDTH)}, batch="batch")
    assert list(program.states["layer.weight"].imported.axes) == [1, 0]
    kinds = [op.type for body in program.block.bodies for op in body.ops]
    assert "transpose" not in kinds
    [loop] = [op for op in program.block.desc.ops if op.type == "while_loop"]
    assert next(a.int_value for a in loop.attributes if a.name == "max_trips") == 4


class Lacking(torch.nn.Module):
    """Operators that prograd lacks, in both branches."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.special.bessel_j0, torch.special.bessel_j1, (x,))


def test_operators_that_both_branches_lack_are_named_at_once():
    with pytest.raises(CompileError) as error:
        from_torch(Lacking(), {"x": torch.randn(4, 4)})
    assert "aten.special_bessel_j0.default, used 1 time" in str(error.value)
    assert "aten.special_bessel_j1.default, used 1 time" in str(error.value)

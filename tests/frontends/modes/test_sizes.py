"""from_torch: sizes for which a module does something else than for those of its examples."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from compiler import CompileError
from frontends.modes.test_dropped_by_export import told
from prograd import Run, from_torch


class Sized(nn.Module):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function, self.linear = function, nn.Linear(64, 8)

    def forward(self, x: Any) -> Any:
        return self.function(self.linear(x))


def by_rows(x: Any) -> Any:
    return 2 * x if x.shape[0] > 40 else x


def by_one_row(x: Any) -> Any:
    return 2 * x if x.shape[0] == 1 else x


def by_even_rows(x: Any) -> Any:
    return 2 * x if x.shape[0] % 2 == 0 else x


def positions(x: Any) -> Any:
    return torch.arange(x.shape[0])[:, None]


LIMITED = {
    "a branch": (by_rows, 40, 41, "up to 40, where test_sizes.py:26 decides by it; import it with an example of 41"),
    "a branch for one row": (by_one_row, 2, 1, "from 2; import it without 'batch'"),
    "a squeeze": (lambda x: x.squeeze(0).sum(0) + x, 2, 1, "from 2; import it without 'batch'"),
    "a slice": (lambda x: x[:50].sum() + x, 49, 50, "up to 49; import it with an example of 50"),
    "a row": (lambda x: x[20] + x, 21, 20, "from 21; import it with an example of 20"),
    "a window": (lambda x: x * (positions(x) - positions(x).T < 4096).float().mean(), 60, 4097,
                 "up to 4096; import it with an example of 4097"),
}  # fmt: skip


@pytest.mark.parametrize("case", LIMITED)
def test_a_size_for_which_the_module_takes_another_way_is_refused(case: str):
    function, taken, refused, told = LIMITED[case]
    module = Sized(function)
    program = from_torch(module, {"x": torch.zeros(32, 64)}, batch="batch")
    rows = torch.randn(taken, 64)
    found = Run(program.compile(batch=taken)).predict({"x": rows.numpy()})["output"]
    np.testing.assert_allclose(found, module.eval()(rows).detach().numpy(), rtol=1e-5, atol=1e-5)
    with pytest.raises(CompileError) as caught:
        program.compile(batch=refused)
    assert str(caught.value) == f"batch={refused}: the model was imported for batch {told}, or bind another size"


COMPUTED = {
    "positions below a number": lambda x: x * (positions(x) < 50),
    "positions up to a number": lambda x: x + positions(x).clamp(max=50),
    "halves of positions": lambda x: x + positions(x) // 2,
    "positions from the end": lambda x: x + (x.shape[0] - 1 - positions(x)),
    "positions times the size": lambda x: x + positions(x) * x.shape[0],
    "positions along the second axis": lambda x: x + positions(x).T.expand(8, -1).T,
    "distances": lambda x: ((positions(x) - positions(x).T).abs() < 50).float() @ x,
}


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("rows", [3, 32, 90])
@pytest.mark.parametrize("case", COMPUTED)
def test_numbers_made_of_sizes_follow_the_size_of_a_run(case: str, rows: int, engine: Any):
    module = Sized(COMPUTED[case])
    program = from_torch(module, {"x": torch.zeros(32, 64)}, batch="batch")
    x = torch.randn(rows, 64)
    found = Run(program.compile(batch=rows), engine=engine).predict({"x": x.numpy()})["output"]
    np.testing.assert_allclose(found, module.eval()(x).detach().numpy(), rtol=1e-4, atol=1e-4)


def test_what_holds_for_no_range_of_sizes_is_refused_with_its_line():
    with pytest.raises(CompileError) as caught:
        from_torch(Sized(by_even_rows), {"x": torch.zeros(32, 64)}, batch="batch")
    assert str(caught.value) == (
        "from_torch: the module decides by a size (at test_sizes.py:34), and the program would be right only while "
        "Eq(Mod(batch, 2), 0) holds; import it without the symbol 'batch'"
    )


def no_recorded_write(x: Any) -> Any:
    y = x.clone()
    with torch.no_grad():
        y.mul_(2)
    return y


def detached_write(x: Any) -> Any:
    y = x.clone()
    y.detach()[:, 0] = 0
    return y


@pytest.mark.parametrize("function", [no_recorded_write, detached_write])
def test_writes_whose_gradient_is_not_recorded_are_refused(function: Any):
    assert told(Sized(function)) == (
        "from_torch: forward writes a tensor that has a gradient where none is recorded (at test_sizes.py:22): "
        "PyTorch hands the gradient on as if nothing had been written, which no program does; write a copy, as in "
        "x = x.detach().clone()"
    )
    module = Sized(function).requires_grad_(False)
    found = Run(from_torch(module, {"x": torch.ones(32, 64)}).compile()).predict({"x": np.ones((32, 64), np.float32)})
    np.testing.assert_allclose(found["output"], module(torch.ones(32, 64)).numpy(), rtol=1e-5, atol=1e-6)

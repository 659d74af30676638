"""Operators along axes of a symbol, whose number of elements the import does not know."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import prograd
from prograd import CompileError


class Applies(torch.nn.Module):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


def written(x: Any, key: Any, value: float = 0.0) -> Any:
    y = x.clone()
    y[key] = value
    return y


NEEDS_A_NUMBER: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], int]] = {
    "write first": (lambda x: written(x, 0), (4, 4), 0),
    "write last": (lambda x: written(x, -1), (4, 4), 0),
    "write two": (lambda x: written(x, slice(None, 2)), (4, 4), 0),
    "resize": (lambda x: torch.nn.functional.interpolate(x, scale_factor=2.0), (2, 3, 4, 6), 2),
    "adaptive pool": (lambda x: torch.nn.functional.adaptive_avg_pool2d(x, (None, 3)), (2, 3, 4, 6), 2),
    "roll": (lambda x: torch.roll(x, 1), (4, 4), 0),
}


@pytest.mark.parametrize("name", NEEDS_A_NUMBER)
def test_operators_that_need_a_number_refuse_a_symbol(name: str):
    function, shape, axis = NEEDS_A_NUMBER[name]
    with pytest.raises(CompileError) as raised:
        prograd.from_torch(Applies(function), {"x": torch.zeros(shape)}, symbols={"x": {axis: "rows"}})
    found = re.search(r"must have a number here; import the module without the symbol 'rows'", str(raised.value))
    assert found, str(raised.value)


@pytest.mark.parametrize("name", NEEDS_A_NUMBER)
def test_they_compute_what_pytorch_does_with_a_number(name: str, tmp_path: Path):
    function, shape, _ = NEEDS_A_NUMBER[name]
    x = torch.randn(shape)
    prograd.from_torch(Applies(function), {"x": x}).compile().save(tmp_path / "net.pb")
    found = prograd.load(tmp_path / "net.pb").predict(x.numpy())["output"]
    np.testing.assert_allclose(found, function(x).numpy(), rtol=1e-5, atol=1e-6)


def test_writes_along_other_axes_keep_the_symbol(tmp_path: Path):
    program = prograd.from_torch(
        Applies(lambda x: written(x, (slice(None), 0))), {"x": torch.zeros(4, 4)}, batch="rows"
    )
    program.compile(rows=6).save(tmp_path / "net.pb")
    x = torch.randn(6, 4)
    found = prograd.load(tmp_path / "net.pb").predict(x.numpy())["output"]
    np.testing.assert_array_equal(found, written(x, (slice(None), 0)).numpy())

"""Operators along axes of a symbol, whose number of elements the import does not know."""

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


Case = tuple[Callable[[Any], Any], tuple[int, ...], int]

WRITES: dict[str, tuple[Callable[[Any], Any], int]] = {
    "first": (lambda x: written(x, 0), 1),
    "last": (lambda x: written(x, -1), 1),
    "two": (lambda x: written(x, slice(None, 2)), 1),
    "last two": (lambda x: written(x, slice(-2, None)), 1),
    "fourth": (lambda x: written(x, 3), 4),
    "three before the last": (lambda x: written(x, slice(-4, -1)), 4),
}
"""Writes along an axis of a symbol, and the least size for which the program is the module."""

RESIZED: Case = (lambda x: torch.nn.functional.interpolate(x, scale_factor=2.0), (2, 3, 4, 6), 2)
POOLED: Case = (lambda x: torch.nn.functional.adaptive_avg_pool2d(x, (None, 3)), (2, 3, 4, 6), 2)
NEEDS_A_NUMBER: dict[str, tuple[Case, str]] = {
    "resize": (RESIZED, "a resized extent is the symbol 'rows'; here it must be a number (WITHOUT)"),
    "adaptive pool": (POOLED, "an axis with rows elements must have a number here; WITHOUT"),
    "roll": (
        (lambda x: torch.roll(x, 1), (4, 4), 0),
        "an axis with rows elements must have a number here; WITHOUT",
    ),
    "every second": (
        (lambda x: written(x, slice(1, None, 2)), (4, 4), 0),
        "an axis has (rows//2) elements, which is no product of a number and symbols; WITHOUT",
    ),
}


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("name", WRITES)
def test_writes_along_a_symbol_are_those_of_pytorch_for_every_size(name: str, engine: str):
    function, least = WRITES[name]
    program = prograd.from_torch(Applies(function), {"x": torch.zeros(4, 4)}, symbols={"x": {0: "rows"}})
    for rows in (1, 2, 3, 4, 5, 32):
        if rows < least:
            with pytest.raises(CompileError, match=rf"^rows={rows}: the model was imported for rows from {least}; "):
                program.compile(rows=rows)
            continue
        x = torch.randn(rows, 4)
        found = prograd.Run(program.compile(rows=rows), engine=engine).predict(x.numpy())["output"]
        np.testing.assert_array_equal(found, function(x).numpy())


@pytest.mark.parametrize("name", NEEDS_A_NUMBER)
def test_operators_that_need_a_number_refuse_a_symbol(name: str):
    (function, shape, axis), reason = NEEDS_A_NUMBER[name]
    with pytest.raises(CompileError) as raised:
        prograd.from_torch(Applies(function), {"x": torch.zeros(shape)}, symbols={"x": {axis: "rows"}})
    reason = reason.replace("WITHOUT", "import the module without the symbol 'rows'")
    assert str(raised.value).endswith(f": {reason}")


@pytest.mark.parametrize("name", NEEDS_A_NUMBER)
def test_they_compute_what_pytorch_does_with_a_number(name: str, tmp_path: Path):
    (function, shape, _), _ = NEEDS_A_NUMBER[name]
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


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_an_einsum_of_three_tensors_keeps_the_symbol(engine: str):
    def scaled(x: Any) -> Any:
        return torch.einsum("bld,bln,bd->bldn", x, x[..., :2], x.sum(1))

    program = prograd.from_torch(Applies(scaled), {"x": torch.zeros(3, 5, 4)}, batch="rows")
    for rows in (1, 2, 7):
        x = torch.randn(rows, 5, 4)
        found = prograd.Run(program.compile(rows=rows), engine=engine).predict(x.numpy())["output"]
        np.testing.assert_allclose(found, scaled(x).numpy(), rtol=1e-5, atol=1e-6)


class Joined(torch.nn.Module):
    def forward(self, a: Any, b: Any) -> Any:
        return torch.cat([a, b])


def test_an_axis_of_the_rows_of_two_inputs_names_their_symbol_once():
    with pytest.raises(CompileError) as raised:
        prograd.from_torch(Joined(), {"a": torch.zeros(3, 4), "b": torch.zeros(3, 4)}, batch="rows")
    assert str(raised.value).endswith(
        ": an axis has rows + rows elements, which is no product of a number and symbols; "
        "import the module without the symbol 'rows'"
    )

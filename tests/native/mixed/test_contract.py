"""Bits of products of bfloat16 beside the contract of docs/half-floats.md, computed in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native.building import SETS
from native.mixed.contract import product

import prograd
from prograd import Program, ops

Array = np.ndarray[Any, np.dtype[Any]]

SHAPES = {(32, 256, 64): 128, (7, 13, 5): 0, (1, 300, 40): 150, (130, 33, 20): 0, (13, 130, 8): 0, (48, 1301, 70): 0}
"""Rows, depth and columns, and the size of halves of the depth that threads add separately; 0 without halves."""


def numbers(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> Array:
    """Return float32 numbers that bfloat16 holds; see `KINDS`."""
    high = {
        "normal": lambda: rng.normal(size=shape).astype("f4").view("u4") >> 16,
        "tiny": lambda: rng.integers(0, 75, shape) << 7 | rng.integers(0, 128, shape) | rng.integers(0, 2, shape) << 15,
        "edge": lambda: (
            rng.choice([64, 52, 51, 50], shape) << 7
            | rng.integers(0, 128, shape) * rng.integers(0, 2, shape)
            | rng.integers(0, 2, shape) << 15
        ),
        "any": lambda: rng.integers(0, 1 << 16, shape),
    }[kind]()
    return (high.astype("u4") << 16).view("f4")


KINDS = ("normal", "tiny", "edge", "any")
"""Ordinary numbers, such with denormal products, products and sums around 2^-126 and 2^-150, and any bits."""


def require_equal_bits(name: str, found: Array, wanted: Array) -> None:
    """Fail if an instruction set gives other bits; NaNs are equal."""
    same = (found.view("u4") == wanted.view("u4")) | (np.isnan(found) & np.isnan(wanted))
    assert same.all(), f"{name}: {(~same).sum()} of {same.size} differ"


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bits_are_those_of_the_contract(tmp_path: Path, shape: tuple[int, int, int], kind: str) -> None:
    m, k, n = shape
    rng = np.random.default_rng([m, k, n, KINDS.index(kind)])
    a, b = numbers(rng, (m, k), kind), numbers(rng, (k, n), kind)
    program = Program("product")
    x, y = program.input("a", "bfloat16", a.shape), program.input("b", "bfloat16", b.shape)
    program.outputs(y=ops.matmul(x, y))
    program.compile().save(tmp_path / "p.pb")
    wanted = product(a, b, SHAPES[shape])
    for name in SETS:
        found = np.asarray(prograd.load(tmp_path / "p.pb", engine=f"native.{name}").predict({"a": a, "b": b})["y"])
        require_equal_bits(name, found, wanted)


FEW_ROWS = [(1, 66, 80), (2, 488, 33), (3, 1040, 20), (4, 1536, 17), (1, 1944, 16)]
"""Rows, depth and columns; the last groups of blocks are whole, or have a few pairs or less than a vector."""


@pytest.mark.sampled(10)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stored", ["bfloat16", "float32", "columns"])
@pytest.mark.parametrize("shape", FEW_ROWS, ids=str)
def test_few_rows_by_weights_as_they_lie_have_the_bits_of_the_contract(
    tmp_path: Path, shape: tuple[int, int, int], stored: str, kind: str
) -> None:
    """Weights are read along the depth, stored as bfloat16 or rounded where they are read; so are rows or columns."""
    m, k, n = shape
    rng = np.random.default_rng([m, k, n, KINDS.index(kind)])
    a, w = numbers(rng, (m, k), kind), numbers(rng, (n, k), kind)
    program = Program("product")
    x = program.input("a", "bfloat16", (k, m) if stored == "columns" else (m, k))
    of_weights = program.input("w", "float32" if stored == "float32" else "bfloat16", w.shape)
    y = ops.cast(of_weights, dtype="bfloat16") if stored == "float32" else of_weights
    program.outputs(y=ops.matmul(x, y, transpose_a=stored == "columns", transpose_b=True))
    program.compile().save(tmp_path / "p.pb")
    wanted, feeds = product(a, w.T), {"a": a.T.copy() if stored == "columns" else a, "w": w}
    for number, name in enumerate(SETS, KINDS.index(kind)):
        run = prograd.load(tmp_path / "p.pb", engine=f"native.{name}", threads=1 + number % 2)
        require_equal_bits(name, np.asarray(run.predict(feeds)["y"]), wanted)

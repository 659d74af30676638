"""Winograd's form of bfloat16: its numbers beside those of transforms in NumPy, NaN and Inf, and its error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native.building import SETS

import prograd
from prograd import Program, ops

Array = np.ndarray[Any, np.dtype[Any]]

ENGINES = [f"native.{name}" for name in SETS]

PIXELS = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], "f8")
TAPS = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], "f8")
SUMS = np.array([[1, 1, 1, 0], [0, 1, -1, -1]], "f8")
"""The transforms of F(2 x 2, 3 x 3): Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016."""

CASES = [
    ((32, 14, 14, 64), 64),
    ((8, 17, 13, 64), 72),  # tiles beyond the image
    ((32, 8, 8, 128), 96),
    ((64, 7, 7, 64), 80),
]


def numbers(seed: int, shape: tuple[int, ...]) -> Array:
    """Return multiples of 1/16 of few digits, whose sums of 16 are exact in float32."""
    return (np.random.default_rng(seed).integers(-63, 64, shape) / 16).astype("f4")


def rounded(x: Array) -> Array:
    """Return numbers rounded to bfloat16, to nearest, ties to even."""
    bits = x.astype("f4").view("u4")
    return ((bits + (0x7FFF + (bits >> 16 & 1))) & 0xFFFF0000).astype("u4").view("f4").astype("f8")


def tiles(x: Array, before: int, extents: tuple[int, int]) -> Array:
    """Return the 4 x 4 pixels of each tile of 2 x 2 outputs: images, tile rows, tile columns, 4, 4, channels."""
    high, wide = (-(-extent // 2) for extent in extents)
    padded = np.zeros((x.shape[0], 2 * high + 2, 2 * wide + 2, x.shape[3]))
    inside = padded[:, before : before + x.shape[1], before : before + x.shape[2]]
    inside[...] = x[:, : inside.shape[1], : inside.shape[2]]
    rows = [[padded[:, i : i + 2 * high : 2, j : j + 2 * wide : 2] for j in range(4)] for i in range(4)]
    return np.moveaxis(np.array(rows), (0, 1), (3, 4))


def convolved(x: Array, w: Array) -> Array:
    """Return a convolution with a padding of 1 whose transformed operands are rounded to bfloat16."""
    seen = rounded(np.einsum("pi,qj,nhwijc->nhwpqc", PIXELS, PIXELS, tiles(x, 1, x.shape[1:3])))
    filters = rounded(np.einsum("pi,qj,ijcd->pqcd", TAPS, TAPS, w.astype("f8")))
    products = np.stack(
        [[seen[:, :, :, p, q] @ filters[p, q] for q in range(4)] for p in range(4)]
    )  # 4, 4, images, rows, columns, channels
    y = np.einsum("ap,bq,pqnhwd->nhawbd", SUMS, SUMS, products)
    n, h, _, v, _, d = y.shape
    return y.reshape(n, 2 * h, 2 * v, d)[:, : x.shape[1], : x.shape[2]]


def filter_gradient(x: Array, dy: Array) -> Array:
    """Return the gradient of the filter, likewise."""
    seen = rounded(np.einsum("pi,qj,nhwijc->nhwpqc", PIXELS, PIXELS, tiles(x, 1, dy.shape[1:3])))
    outputs = tiles(dy, 0, dy.shape[1:3])[:, :, :, :2, :2]
    turned = rounded(np.einsum("ap,bq,nhwabd->nhwpqd", SUMS, SUMS, outputs))
    sums = np.array(
        [
            [np.tensordot(seen[:, :, :, p, q], turned[:, :, :, p, q], ((0, 1, 2), (0, 1, 2))) for q in range(4)]
            for p in range(4)
        ]
    )
    return np.einsum("pi,qj,pqcd->ijcd", TAPS, TAPS, sums)


def results(path: Path, engine: str, x: Array, w: Array, dy: Array, threads: int = 1) -> dict[str, Array]:
    """Return a convolution with a padding of 1, and the gradients of its input and its filter."""
    program = Program("winograd", seed=1)
    fed = {name: program.input(name, "bfloat16", a.shape) for name, a in {"x": x, "w": w, "dy": dy}.items()}
    y = ops.conv2d(fed["x"], fed["w"], padding=1)
    dx = ops.conv2d_input_gradient(fed["dy"], fed["w"], shape=x.shape, padding=1)
    dw = ops.conv2d_filter_gradient(fed["x"], fed["dy"], shape=w.shape, padding=1)
    program.outputs(y=y, dx=dx, dw=dw)
    program.compile().save(path / "p.pb", force=True)
    found = prograd.load(path / "p.pb", engine=engine, threads=threads).predict({"x": x, "w": w, "dy": dy})
    return {name: np.asarray(found[name]) for name in ("y", "dx", "dw")}


def operands(case: Any) -> tuple[Array, Array, Array]:
    shape, wide = case
    return numbers(0, shape), numbers(1, (3, 3, shape[3], wide)), numbers(2, (*shape[:3], wide))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_numbers_are_those_of_rounded_transforms(tmp_path: Path, case: Any) -> None:
    x, w, dy = operands(case)
    found = results(tmp_path, "native", x, w, dy)
    turned = np.swapaxes(w[::-1, ::-1], 2, 3)
    for name, wanted in {"y": convolved(x, w), "dx": convolved(dy, turned), "dw": filter_gradient(x, dy)}.items():
        assert np.abs(found[name] - wanted).max() <= 2e-6 * np.abs(wanted).max(), name


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_engines_agree_within_the_error_of_rounded_transforms(tmp_path: Path, case: Any) -> None:
    rng = np.random.default_rng(3)
    x, w, dy = (rounded(rng.normal(size=a.shape)).astype("f4") for a in operands(case))
    exact, found = (results(tmp_path, engine, x, w, dy) for engine in ("reference", "native"))
    for name, wanted in exact.items():
        difference = found[name] - wanted
        assert np.abs(difference).max() <= 1e-2 * np.abs(wanted).max(), name
        assert np.sqrt((difference**2).mean()) <= 5e-3 * np.sqrt((wanted**2).mean()), name


@pytest.mark.thorough
@pytest.mark.skipif(len(ENGINES) < 2, reason="this machine has one instruction set")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_bits_depend_on_no_instruction_set_and_no_thread(tmp_path: Path, case: Any) -> None:
    first = results(tmp_path, ENGINES[0], *operands(case))
    for engine, threads in ((ENGINES[0], 2), *((engine, 1) for engine in ENGINES[1:])):
        other = results(tmp_path, engine, *operands(case), threads)
        assert all(np.array_equal(first[name].view("u4"), other[name].view("u4")) for name in first)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("operand", "odd"), [("x", np.nan), ("x", np.inf), ("w", np.nan), ("w", -np.inf), ("dy", np.nan), ("dy", np.inf)]
)
def test_numbers_that_are_not_finite_reach_what_they_reach_in_the_reference_engine(
    tmp_path: Path, engine: str, operand: str, odd: float
) -> None:
    x, w, dy = operands(((4, 14, 14, 64), 64))
    {"x": x, "w": w, "dy": dy}[operand][1, 1, 2, 3] = odd
    exact, found = (results(tmp_path, each, x, w, dy) for each in ("reference", engine))
    for name, wanted in exact.items():
        assert_close(found[name], wanted)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("engine", ENGINES)
def test_numbers_whose_transforms_overflow_give_finite_results(tmp_path: Path, engine: str) -> None:
    x, w, dy = operands(((4, 14, 14, 64), 64))
    x[0, 4:8, 4:8, :] = 2.0**127  # the sum of two is infinite
    exact, found = (results(tmp_path, each, x, w / 2.0**20, dy / 2.0**20) for each in ("reference", engine))
    for name, wanted in exact.items():
        assert np.isfinite(wanted).all()
        assert_close(found[name], wanted)


def assert_close(found: Array, wanted: Array) -> None:
    """Compare numbers that are not finite exactly, and the others within the error of rounded transforms."""
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    assert np.array_equal(np.where(np.isinf(found), found, 0), np.where(np.isinf(wanted), wanted, 0))
    is_finite = np.isfinite(wanted)
    assert is_finite.any()
    difference = np.abs(found[is_finite].astype("f8") - wanted[is_finite])
    assert difference.max() <= 1e-2 * np.abs(wanted[is_finite]).max()

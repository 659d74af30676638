"""Convolutions of bfloat16: values beside float32 convolutions of the same numbers, and equal bits without pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native.building import SETS

import prograd
from prograd import Program, ops

Array = np.ndarray[Any, np.dtype[Any]]

CASES = [
    ((8, 16, 16, 32), (3, 3, 32, 64), {"padding": 1}),
    ((8, 16, 16, 64), (1, 1, 64, 128), {}),
    ((4, 15, 15, 3), (3, 3, 3, 16), {"padding": 1}),
    ((8, 9, 9, 2), (3, 3, 2, 24), {"padding": 1}),
    ((4, 14, 14, 32), (3, 3, 1, 32), {"padding": 1, "groups": 32}),
    ((4, 17, 17, 30), (3, 3, 30, 20), {"stride": 2, "padding": 1}),
    ((2, 8, 8, 512), (3, 3, 512, 96), {"padding": 1}),
    ((2, 9, 9, 12), (3, 3, 6, 10), {"padding": 1, "groups": 2}),
    ((2, 6, 6, 40), (3, 3, 20, 24), {"groups": 2, "dilation": 2}),
    ((3, 12, 12, 1), (5, 5, 1, 6), {"padding": 2}),
    ((32, 16, 16, 64), (3, 3, 64, 64), {"padding": 1}),
    ((32, 12, 12, 48), (3, 3, 48, 96), {"stride": 2, "padding": 1}),
    ((4, 20, 20, 32), (3, 3, 32, 40), {"padding": 1}),
    ((3, 13, 13, 16), (3, 3, 16, 24), {"stride": 2, "padding": 1}),
    ((8, 24, 24, 8), (5, 5, 8, 12), {"padding": 2}),
    ((16, 8, 8, 128), (1, 1, 128, 64), {"stride": 2}),
    ((16, 28, 28, 32), (1, 1, 32, 96), {}),
    ((32, 16, 16, 64), (1, 1, 64, 48), {}),
    ((32, 8, 8, 72), (3, 3, 72, 64), {"stride": 2, "padding": 1}),
    ((33, 7, 7, 32), (3, 3, 32, 40), {"padding": 1}),
    ((32, 4, 4, 256), (3, 3, 256, 256), {"padding": 1}),
    ((14, 4, 4, 160), (3, 3, 160, 320), {"padding": 1, "stride": 2}),
    ((10, 9, 9, 30), (5, 5, 30, 20), {"padding": 2, "stride": 2}),
    ((8, 3, 5, 64), (5, 7, 64, 32), {"padding": (3, 4, 3, 2)}),
    ((16, 5, 5, 32), (3, 3, 32, 32), {"padding": 2}),
    ((4, 10, 10, 40), (3, 3, 1, 80), {"padding": 1, "groups": 40}),
    ((3, 9, 9, 5), (3, 3, 1, 15), {"groups": 5, "stride": 2}),
]

OF_WINOGRAD = [case for case in CASES if case[1][:2] == (3, 3) and case[0][3] >= 16 and case[2] == {"padding": 1}]
"""Cases that may have Winograd's form, which rounds transformed operands: see test_winograd.py."""

ROUNDED_TRANSFORMS = 1e-2


def numbers(seed: int, shape: tuple[int, ...]) -> Array:
    """Return float32 numbers that bfloat16 holds."""
    bits = np.random.default_rng(seed).normal(size=shape).astype("f4").view("u4") & 0xFFFF0000
    return bits.astype("u4").view("f4")


def results(path: Path, dtype: str, case: Any, engine: str) -> list[Array]:
    """Return a convolution and the gradients of its input and its filter, for a gradient that bfloat16 holds."""
    shape, window, attributes = case
    program = Program("convolution", seed=1)
    x, w = program.input("x", dtype, shape), program.input("w", dtype, window)
    y = ops.conv2d(x, w, **attributes)
    dy = program.input("dy", dtype, y.shape)
    dx = ops.conv2d_input_gradient(dy, w, shape=shape, **attributes)
    dw = ops.conv2d_filter_gradient(x, dy, shape=window, **attributes)
    program.outputs(y=y, dx=dx, dw=dw)
    program.compile().save(path / "p.pb", force=True)
    feeds = {"x": numbers(0, shape), "w": numbers(1, window), "dy": numbers(2, y.shape)}
    found = prograd.load(path / "p.pb", engine=engine).predict(feeds)
    return [np.asarray(found[name]) for name in ("y", "dx", "dw")]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_results_are_those_of_float32_convolutions(tmp_path: Path, case: Any, engine: str) -> None:
    wanted = results(tmp_path, "float32", case, "reference")
    tolerance = ROUNDED_TRANSFORMS if engine == "native" and case in OF_WINOGRAD else 2e-6
    for y, exact in zip(results(tmp_path, "bfloat16", case, engine), wanted, strict=True):
        assert y.dtype == np.float32
        assert np.abs(y - exact).max() <= tolerance * np.abs(exact).max()


@pytest.mark.thorough
@pytest.mark.skipif(len(SETS) < 2, reason="this machine has one instruction set")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_bits_do_not_depend_on_the_instruction_set(tmp_path: Path, case: Any) -> None:
    first, *others = (results(tmp_path, "bfloat16", case, f"native.{name}") for name in SETS)
    for other in others:
        assert all(np.array_equal(a.view("u4"), b.view("u4")) for a, b in zip(first, other, strict=True))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("engine", ["reference", *(f"native.{name}" for name in SETS)])
@pytest.mark.parametrize("images", [2, 12])
@pytest.mark.parametrize("odd", [np.inf, np.nan])
def test_taps_that_are_not_finite_reach_the_zeros_around_images(
    tmp_path: Path, engine: str, images: int, odd: float
) -> None:
    """A convolution that leaves out taps outside of images has the results of one that multiplies zeros."""
    program = Program("taps", seed=1)
    x, w = program.input("x", "bfloat16", (images, 6, 6, 32)), program.input("w", "bfloat16", (3, 3, 32, 48))
    program.outputs(y=ops.conv2d(x, w, padding=1))
    program.compile().save(tmp_path / "p.pb", force=True)
    feeds = {"x": np.ones((images, 6, 6, 32), "f4"), "w": np.ones((3, 3, 32, 48), "f4")}
    feeds["w"][0, 1, 3, 5] = odd
    y = np.asarray(prograd.load(tmp_path / "p.pb", engine=engine).predict(feeds)["y"])
    assert np.isnan(y[:, 0, :, 5]).all()
    assert np.array_equal(y[:, 1:, :, 5], np.full((images, 5, 6), odd, "f4"), equal_nan=True)
    assert np.isfinite(np.delete(y, 5, axis=3)).all()


@pytest.mark.parametrize("threads", [2, 16])
def test_bits_do_not_depend_on_the_number_of_threads(tmp_path: Path, threads: int) -> None:
    program = Program("threads", seed=1)
    x = program.input("x", "bfloat16", (33, 7, 7, 64))
    for i, window in enumerate([(3, 3, 64, 96), (3, 3, 96, 320), (3, 3, 320, 320)]):
        w = program.parameter(f"w{i}", window, prograd.normal(0.0, 0.05), dtype="bfloat16")
        x = ops.cast(ops.conv2d(x, w, padding=1), dtype="bfloat16")
    program.outputs(y=ops.cast(x, dtype="float32"))
    program.compile().save(tmp_path / "p.pb", force=True)
    feeds = {"x": numbers(0, (33, 7, 7, 64))}
    found = [
        np.asarray(prograd.load(tmp_path / "p.pb", engine="native", threads=n).predict(feeds)["y"])
        for n in (1, threads)
    ]
    assert np.array_equal(found[0].view("u4"), found[1].view("u4"))
    assert np.isfinite(found[0]).all()


def filter_gradient(path: Path, engine: str, x: Array, dy: Array) -> Array:
    """Return the gradient of a 3 x 3 filter for images of 8 x 8."""
    program = Program("filters", seed=1)
    fed = {"x": program.input("x", "bfloat16", x.shape), "dy": program.input("dy", "bfloat16", dy.shape)}
    window = (3, 3, x.shape[3], dy.shape[3])
    program.outputs(dw=ops.conv2d_filter_gradient(fed["x"], fed["dy"], shape=window, padding=1))
    program.compile().save(path / "p.pb", force=True)
    return np.asarray(prograd.load(path / "p.pb", engine=engine).predict({"x": x, "dy": dy})["dw"])


ENGINES = ["reference", "native", *(f"native.{name}" for name in SETS)]


@pytest.mark.parametrize("engine", ENGINES)
def test_gradients_of_filters_count_denormal_numbers_as_0(tmp_path: Path, engine: str) -> None:
    x, dy = numbers(0, (4, 8, 8, 32)), numbers(1, (4, 8, 8, 64))
    x[..., 3], dy[..., 5] = 2.0**-130, 2.0**-127
    found = filter_gradient(tmp_path, engine, x, dy)
    is_zero = np.zeros(found.shape, bool)
    is_zero[:, :, 3] = is_zero[..., 5] = True
    assert np.array_equal(found == 0, is_zero)


@pytest.mark.parametrize("engine", ENGINES)
def test_gradients_of_filters_count_denormal_sums_as_0(tmp_path: Path, engine: str) -> None:
    x, dy = np.zeros((2, 8, 8, 32), "f4"), np.zeros((2, 8, 8, 64), "f4")
    x[1, 4, 4, :], dy[1, 4, 4, :] = 2.0**-64, 2.0**-63
    assert not filter_gradient(tmp_path, engine, x, dy).any()
    dy[1, 4, 4, :] = 2.0**-62
    assert (filter_gradient(tmp_path, engine, x, dy)[1, 1] == 2.0**-126).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_gradients_of_filters_pass_numbers_on_that_are_not_finite(tmp_path: Path, engine: str, odd: float) -> None:
    x, dy = np.abs(numbers(0, (4, 8, 8, 32))), np.abs(numbers(1, (4, 8, 8, 64)))
    x[3, 4, 4, 7] = odd
    found = filter_gradient(tmp_path, engine, x, dy)
    assert np.array_equal(found[:, :, 7], np.full((3, 3, 64), odd, "f4"), equal_nan=True)
    assert np.isfinite(found).sum() == found.size - found[:, :, 7].size


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_casts_around_a_convolution_change_no_bit(tmp_path: Path, engine: str) -> None:
    """A cast in front of a convolution and behind it may be computed with it; a fetch of the casts keeps them apart."""
    found = []
    for is_fetched in (False, True):
        program = Program("casts", seed=1)
        x, w = program.input("x", "float32", (4, 12, 12, 32)), program.input("w", "float32", (3, 3, 32, 32))
        narrow = ops.cast(ops.relu(x), dtype="bfloat16")
        y = ops.conv2d(narrow, ops.cast(w, dtype="bfloat16"), padding=1)
        rounded = ops.cast(ops.relu(y), dtype="bfloat16")
        z = ops.conv2d(rounded, ops.cast(w, dtype="bfloat16"), padding=1)
        program.outputs(z=z, **({"narrow": narrow, "y": y, "rounded": rounded} if is_fetched else {}))
        program.compile().save(tmp_path / "p.pb", force=True)
        feeds = {"x": numbers(0, (4, 12, 12, 32)), "w": numbers(1, (3, 3, 32, 32))}
        found.append(np.asarray(prograd.load(tmp_path / "p.pb", engine=engine).predict(feeds)["z"]))
    assert np.array_equal(found[0], found[1])


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_of_inputs_are_rounded_where_they_are_computed(tmp_path: Path, case: Any) -> None:
    """A cast and a factor of each channel behind a gradient are computed with it, unless the gradient is fetched."""
    shape, window, attributes = case
    found: list[Array] = []
    for is_fetched in (False, True):
        program = Program("rounded", seed=1)
        w, scale = program.input("w", "bfloat16", window), program.input("scale", "float32", shape[-1:])
        y = ops.conv2d(program.input("x", "bfloat16", shape), w, **attributes)
        dy = program.input("dy", "bfloat16", y.shape)
        dx = ops.conv2d_input_gradient(dy, w, shape=shape, **attributes)
        program.outputs(rounded=ops.cast(dx * scale, dtype="bfloat16"), **({"dx": dx} if is_fetched else {}))
        program.compile().save(tmp_path / "p.pb", force=True)
        feeds = {"w": numbers(1, window), "dy": numbers(2, y.shape), "scale": numbers(3, shape[-1:])}
        found.append(np.asarray(prograd.load(tmp_path / "p.pb", engine="native").predict(feeds)["rounded"]))
    assert np.array_equal(found[0], found[1])

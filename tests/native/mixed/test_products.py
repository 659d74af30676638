"""Products of bfloat16 factors: values beside float64, and equal bits on all instruction sets of this machine."""

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
    ("matmul", (32, 256), (256, 128), {}),
    ("matmul", (32, 784), (784, 256), {}),
    ("matmul", (64, 100), (96, 100), {"transpose_b": True}),
    ("matmul", (130, 33), (130, 70), {"transpose_a": True}),
    ("matmul", (7, 13), (13, 5), {}),
    ("matmul", (13, 7), (5, 13), {"transpose_a": True, "transpose_b": True}),
    ("matmul", (128, 300), (300, 1), {}),
    ("matmul", (1, 300), (300, 64), {}),
    ("matmul", (40, 1), (1, 50), {}),
    ("matmul", (96, 1301), (1301, 64), {}),
    ("matmul", (448, 600), (600, 512), {}),
    ("matmul", (3, 20, 31), (3, 31, 24), {}),
    ("matmul", (3, 20, 32), (32, 24), {}),
    ("matmul", (2, 3, 32, 64), (2, 3, 48, 64), {"transpose_b": True}),
    ("outer_sum", (256, 784), (256, 128), {}),
    ("outer_sum", (33, 31), (33, 10), {}),
    ("outer_sum", (4, 9, 64), (4, 9, 65), {}),
]


def product(path: Path, name: str, shapes: tuple[Any, Any], attributes: dict[str, Any]) -> Path:
    program = Program("product", seed=1)
    a, b = (program.input(x, "bfloat16", shape) for x, shape in zip("ab", shapes, strict=True))
    program.outputs(y=getattr(ops, name)(a, b, **attributes))
    program.compile().save(path / "p.pb")
    return path / "p.pb"


def numbers(seed: int, shape: tuple[int, ...], kind: str = "normal") -> Array:
    """Return float32 numbers that bfloat16 holds: normal ones, tiny ones around 2^-63, or any bits but NaN."""
    rng = np.random.default_rng(seed)
    if kind == "normal":
        bits = rng.normal(size=shape).astype("f4").view("u4") & 0xFFFF0000
    elif kind == "tiny":
        bits = (rng.integers(0, 75, shape) << 7 | rng.integers(0, 128, shape) | rng.integers(0, 2, shape) << 15) << 16
    else:
        bits = rng.integers(0, 1 << 16, shape) << 16
    x = bits.astype("u4").view("f4")
    return np.where(np.isnan(x), np.float32(1), x)


def result(path: Path, a: Array, b: Array, engine: str) -> Array:
    return np.asarray(prograd.load(path, engine=engine).predict({"a": a, "b": b})["y"])


def exact(name: str, a: Array, b: Array, attributes: dict[str, Any]) -> Array:
    a, b = a.astype("f8"), b.astype("f8")
    if name == "outer_sum":
        return a.reshape(-1, a.shape[-1]).T @ b.reshape(-1, b.shape[-1])
    if attributes.get("transpose_a"):
        a = a.swapaxes(-1, -2)
    return a @ (b.swapaxes(-1, -2) if attributes.get("transpose_b") else b)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_sums_are_those_of_exact_products(tmp_path: Path, case: Any, engine: str) -> None:
    name, *shapes, attributes = case
    a, b = (numbers(i, shape) for i, shape in enumerate(shapes))
    y = result(product(tmp_path, name, shapes, attributes), a, b, engine)
    wanted = exact(name, a, b, attributes)
    assert y.dtype == np.float32
    assert np.abs(y - wanted).max() <= 2e-6 * np.abs(wanted).max()


@pytest.mark.sampled(36)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("kind", ["normal", "tiny", "any"])
def test_all_instruction_sets_give_equal_bits(tmp_path: Path, case: Any, kind: str) -> None:
    name, *shapes, attributes = case
    a, b = (numbers(i, shape, kind) for i, shape in enumerate(shapes))
    path = product(tmp_path, name, shapes, attributes)
    first, *others = (result(path, a, b, f"native.{each}") for each in SETS)
    for y in others:
        same = (y.view("u4") == first.view("u4")) | (np.isnan(y) & np.isnan(first))
        assert same.all()


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(24))
def test_large_products_of_any_depth_are_right_on_all_instruction_sets(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, n, k = int(rng.choice([32, 200, 448, 700])), int(rng.choice([64, 250, 512, 700])), int(rng.integers(513, 1300))
    attributes = {name: True for name in ("transpose_a", "transpose_b") if rng.random() < 0.5}
    shapes = (k, m) if "transpose_a" in attributes else (m, k), (n, k) if "transpose_b" in attributes else (k, n)
    a, b = (numbers(i, shape) for i, shape in enumerate(shapes))
    path, wanted = product(tmp_path, "matmul", shapes, attributes), exact("matmul", a, b, attributes)
    first, *others = (result(path, a, b, f"native.{each}") for each in SETS)
    assert np.abs(first - wanted).max() <= 2e-6 * np.abs(wanted).max()
    for y in others:
        np.testing.assert_array_equal(y, first)


@pytest.mark.parametrize("engine", ["reference", *(f"native.{each}" for each in SETS)])
def test_numbers_below_the_least_normal_one_count_as_0(tmp_path: Path, engine: str) -> None:
    path = product(tmp_path, "matmul", ((2, 2), (2, 2)), {})
    least = 2.0**-126
    a = np.array([[least / 2, 0], [least, 0]], "f4")  # the first one is no normal number
    b = np.array([[1024, 0.5], [0, 0]], "f4")
    assert np.array_equal(result(path, a, b, engine), [[0, 0], [least * 1024, 0]])


@pytest.mark.parametrize("engine", ["reference", *(f"native.{each}" for each in SETS)])
def test_infinity_and_nan_are_those_of_ieee_754(tmp_path: Path, engine: str) -> None:
    path = product(tmp_path, "matmul", ((4, 2), (2, 1)), {})
    a = np.array([[np.inf, 1], [np.inf, -np.inf], [np.nan, 0], [3e38, 3e38]], "f4")
    a = (a.view("u4") & 0xFFFF0000).view("f4")
    y = result(path, a, np.ones((2, 1), "f4"), engine)
    assert y[0] == np.inf
    assert np.isnan(y[1:3]).all()
    assert y[3] == np.inf


def test_elements_with_even_and_odd_numbers_are_added_apart(tmp_path: Path) -> None:
    path = product(tmp_path, "matmul", ((1, 4), (4, 1)), {})
    a = np.array([[2.0**24, 1, 1, 1]], "f4")  # in any order of one chain, 2.0**24 + 1 is rounded to 2.0**24
    for each in SETS:
        assert result(path, a, np.ones((4, 1), "f4"), f"native.{each}").item() == 2.0**24 + 2


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_gradients_of_bfloat16_factors_are_float32(tmp_path: Path, engine: str) -> None:
    program = Program("gradients", seed=1)
    x = program.input("x", "bfloat16", (32, 64))
    w = program.parameter("w", (64, 48))
    y = ops.matmul(x, ops.cast(w, dtype="bfloat16"))
    program.minimize(ops.mean(y * y), prograd.sgd(1.0))
    program.compile().save(tmp_path / "p.pb")
    run = prograd.load(tmp_path / "p.pb", engine=engine)
    before, given = np.array(run.state["w"]), numbers(3, (32, 64))
    run.step({"x": given})
    rounded = before.astype("f8")
    mantissa, exponent = np.frexp(rounded)
    rounded = np.ldexp(np.rint(mantissa * 256), exponent - 8)
    product = given.astype("f8") @ rounded
    dy = 2 * product / product.size
    mantissa, exponent = np.frexp(dy)
    dy = np.ldexp(np.rint(mantissa * 256), exponent - 8)
    step = given.astype("f8").T @ dy
    assert np.abs((before - run.state["w"]) - step).max() < 0.01 * np.abs(step).max()


def test_float16_factors_are_refused() -> None:
    program = Program("product")
    a, b = program.input("a", "float16", (4, 4)), program.input("b", "float16", (4, 4))
    with pytest.raises(prograd.OpError, match="needs float32 or float64, not float16; cast it first"):
        ops.matmul(a, b)


@pytest.mark.parametrize(("m", "k", "n"), [(3, 30746, 48), (4, 30750, 32)])
def test_the_last_block_of_a_deep_product_may_have_no_whole_group(tmp_path: Path, m: int, k: int, n: int) -> None:
    """Blocks of equal size leave 13 and 15 pairs, and a tile of few rows is one part."""
    a, b = numbers(0, (m, k)), numbers(1, (k, n))
    path = product(tmp_path, "matmul", ((m, k), (k, n)), {})
    wanted = a.astype("f8") @ b
    for name in SETS:
        found = result(path, a, b, f"native.{name}")
        assert np.abs(found - wanted).max() <= 2e-6 * np.abs(wanted).max(), name

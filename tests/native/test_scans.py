"""Running sums and products, recurrences, and the first of an order, against the kernels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native.building import every_target
from native.staged import expected, op_of, staged

from runtime.engines.native.cpu import this_machine

SHAPES = st.lists(st.sampled_from([1, 2, 5, 17, 33]), min_size=1, max_size=3)


def check(name: str, *inputs: np.ndarray, near: float = 0.0, target=None, **attributes):
    block = op_of(name, inputs, attributes)
    made = staged(target or this_machine(), block, inputs)
    for got, wanted in zip(made, expected(block.ops[0], inputs), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=near, atol=near, err_msg=f"{name} {attributes}")


def drawn(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Few different numbers, so that some are equal; NaN and infinity among floats."""
    x = np.random.default_rng(0).integers(0, 9, shape).astype(dtype)
    if dtype.startswith("float") and x.size > 4:
        x.reshape(-1)[[1, -2]] = np.nan
        x.reshape(-1)[[0, -1]] = np.inf, -np.inf
    return x


@pytest.mark.thorough
@settings(max_examples=20, deadline=None)
@given(shape=SHAPES, data=st.data())
def test_running_sums_and_products(shape: list[int], data):
    dtype = data.draw(st.sampled_from(["float32", "float64", "int32", "int64", "uint8", "bool"]))
    x = np.random.default_rng(0).normal(0, 2, shape).astype(dtype)
    how = dict(axis=data.draw(st.integers(-len(shape), len(shape) - 1)), exclusive=data.draw(st.booleans()))
    near = 1e-5 if dtype == "float32" else 1e-12
    for reverse in (False, True):
        check("cumsum", x, near=near, reverse=reverse, **how)
        check("cumprod", x, near=near, reverse=reverse, **how)
        if dtype.startswith("float"):
            a = np.random.default_rng(1).uniform(-1, 1, shape).astype(dtype)
            check("linear_scan", a, x, near=near, axis=how["axis"], reverse=reverse)


@every_target
def test_long_running_sums_are_of_float64(target):
    x = np.random.default_rng(0).normal(1, 1, (3, 4000, 19)).astype("float32")
    check("cumsum", x, near=1e-6, target=target, axis=1, exclusive=False, reverse=False)


@pytest.mark.thorough
@settings(max_examples=25, deadline=None)
@given(shape=SHAPES, data=st.data())
def test_the_first_of_an_order(shape: list[int], data):
    x = drawn(tuple(shape), data.draw(st.sampled_from(["float32", "float64", "int32", "int64", "uint8"])))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    for largest in (False, True):
        check("topk", x, axis=axis, k=data.draw(st.integers(1, min(shape[axis], 32))), largest=largest)
        if shape[axis] <= 32:
            check("argsort", x, axis=axis, descending=largest)
            check("sort", x, axis=axis, descending=largest)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8"])
def test_long_orders(dtype: str):
    rng = np.random.default_rng(1)
    x = drawn((2, 300, 3), dtype)
    wide = rng.integers(0, 256, 500 * np.dtype(dtype).itemsize).astype("u1").view(dtype).reshape(1, 500)
    x[0, 7:20, 1], x[1, 7:20, 1] = 0, x.dtype.type(-0.0) if x.dtype.kind == "f" else 0
    for largest in (False, True):
        check("argsort", x, axis=1, descending=largest)
        check("argsort", wide, axis=-1, descending=largest)
        check("topk", wide, axis=1, k=40, largest=largest)
        check("topk", x, axis=1, k=100, largest=largest)


@every_target
def test_long_orders_on_every_target(target):
    check(
        "argsort",
        np.random.default_rng(2).normal(0, 1, (3, 90)).astype("float32"),
        target=target,
        axis=1,
        descending=True,
    )


@every_target
@pytest.mark.parametrize(("dtype", "size", "k"), [("float32", 1037, 129), ("float64", 264, 33), ("uint8", 700, 40)])
def test_few_of_a_long_row(target, dtype: str, size: int, k: int):
    numbers = np.random.default_rng(3).normal(0, 40, (2, size)).astype(dtype)
    if dtype.startswith("float"):
        numbers[0, [5, 100, 101, -1]] = np.nan, np.inf, -np.inf, -0.0
    for x in (numbers, np.sort(numbers), drawn((2, size), dtype)):
        for largest in (False, True):
            check("topk", x, target=target, axis=1, k=k, largest=largest)
            check("topk", np.ascontiguousarray(x.T), target=target, axis=0, k=k, largest=largest)

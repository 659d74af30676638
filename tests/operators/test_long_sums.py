"""Sums of many float32 numbers, along any axis: as near to the sum that `math.fsum` gives as the documents say."""

from __future__ import annotations

from collections.abc import Callable
from math import fsum

import numpy as np
import pytest
from subjects.evaluate import evaluate, gradient

from registry import Value, ops

LONG = 60_000
BOUND = 1e-6
"""Upper bound on the relative error of sums of positive numbers."""


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(size=shape).astype("float32")


def exact(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The sums along axes, each rounded once."""
    last = np.moveaxis(x.astype("float64"), axes, tuple(range(-len(axes), 0)))
    kept = last.shape[: x.ndim - len(axes)]
    return np.array([fsum(row) for row in last.reshape(int(np.prod(kept)), -1)]).reshape(kept)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((LONG,), (0,)),
        *(((LONG, columns), (0,)) for columns in (1, 2, 3)),
        ((3000, 40), (0,)),
        ((500, 300), (0,)),
        ((257, 5000), (0,)),
        ((2, LONG // 2, 3), (1,)),
        ((700, 300, 1), (1,)),
        ((3, 300, 260), (1,)),
        ((300, 20, 10), (0, 1)),
        ((300, 20, 10), (0, 2)),
        ((20, 50, 30, 3), (0, 1, 2)),
        ((2, 3, 10_000), (1, 2)),
    ],
)
def test_long_sums_means_norms_and_variances(shape: tuple[int, ...], axes: tuple[int, ...]):
    x = numbers(*shape)
    count = np.prod([shape[axis] for axis in axes])
    total = exact(x, axes)
    squares = exact(x.astype("float64") ** 2, axes)
    mean = np.expand_dims(total / count, axes)
    for function, wanted in (
        (ops.sum, total),
        (ops.mean, total / count),
        (ops.norm, np.sqrt(squares)),
        (ops.variance, exact((x - mean) ** 2, axes) / count),
        (ops.logsumexp, np.log(exact(np.exp(x.astype("float64")), axes))),
    ):
        found = evaluate(lambda x, f=function: f(x, axis=axes), x)
        np.testing.assert_allclose(found, wanted, rtol=2 * BOUND, err_msg=str(function))


@pytest.mark.parametrize(
    "shape", [(LONG,), (LONG, 3), (3, LONG), (2, 300, 70), (3, 9000, 2), (70, 5000), (1000, 65, 2)]
)
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_and_products_are_rounded_once(shape: tuple[int, ...], exclusive: bool, reverse: bool):
    axis = int(np.argmax(shape)) if shape != (1000, 65, 2) else 1
    for function, ufunc, x in (
        (ops.cumsum, np.add, numbers(*shape)),
        (ops.cumprod, np.multiply, 1 + (numbers(*shape) - 0.5) / 100),
    ):
        turned = np.flip(x, axis) if reverse else x
        wanted = ufunc.accumulate(turned.astype("float64"), axis)
        if exclusive:
            wanted = np.roll(wanted, 1, axis)
            np.moveaxis(wanted, axis, 0)[0] = ufunc.identity
        wanted = np.flip(wanted, axis) if reverse else wanted
        y = evaluate(lambda x, f=function: f(x, axis=axis, exclusive=exclusive, reverse=reverse), x)
        np.testing.assert_allclose(y, wanted, rtol=1.2e-7)


def test_the_gradient_of_a_running_sum_is_as_near():
    x = numbers(LONG)
    [dx] = gradient(lambda x: ops.cumsum(x), x)
    np.testing.assert_array_equal(dx, np.arange(LONG, 0, -1))


def test_sums_of_rows_in_normalisation():
    x = numbers(LONG, 2) + 100
    ones = np.ones(2, "float32")
    _, _, _, mean, inverse = evaluate(lambda *xs: ops.batch_norm(*xs), x, ones, ones, ones, ones)
    wide = x.astype("float64")
    np.testing.assert_allclose(mean, exact(x, (0,)) / LONG, rtol=2 * BOUND)
    np.testing.assert_allclose(inverse, 1 / np.sqrt(wide.var(axis=0) + 1e-5), rtol=1e-5)
    y = evaluate(lambda x: ops.softmax(x, axis=0), numbers(LONG, 2))
    powers = np.exp(numbers(LONG, 2).astype("float64"))
    np.testing.assert_allclose(y, powers / exact(powers, (0,)), rtol=2 * BOUND)


def test_running_products_may_pass_the_largest_float32_on_the_way():
    x = np.concatenate([np.full(100, 10.0), np.full(100, 0.1)]).astype("float32")
    assert evaluate(ops.cumprod, x)[-1] == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize("function", [ops.cumsum, ops.cumprod])
def test_short_running_sums_are_numpys_to_the_bit(function: Callable[..., Value]):
    x = numbers(5, 64)
    ufunc = np.add if function is ops.cumsum else np.multiply
    assert evaluate(function, x).tobytes() == ufunc.accumulate(x, 1).tobytes()

"""Running sums and products, products, extremes, statistics and norms, against plain loops and NumPy."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from subjects.commands import told
from subjects.evaluate import block_of, evaluate, gradient

from registry import OpError, Value, ops

INF, NAN = math.inf, math.nan
FORMS = [(exclusive, reverse) for exclusive in (False, True) for reverse in (False, True)]


def scanned(x: np.ndarray, function: Callable[[float, float], float], identity: float, exclusive: bool, reverse: bool):
    """The scan along the last axis by itertools."""
    rows = []
    for row in x.reshape(-1, x.shape[-1]).tolist():
        row = row[::-1] if reverse else row
        made = list(itertools.accumulate(row, function, initial=identity))
        made = made[:-1] if exclusive else made[1:]
        rows.append(made[::-1] if reverse else made)
    return np.array(rows).reshape(x.shape)


@pytest.mark.parametrize(("exclusive", "reverse"), FORMS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_running_sums_and_products_are_those_of_a_loop(axis: int, exclusive: bool, reverse: bool):
    x = np.random.default_rng(0).integers(-3, 4, (4, 5, 6)).astype("float64")
    turned = np.moveaxis(x, axis, -1)
    for op, function, identity in ((ops.cumsum, lambda a, b: a + b, 0.0), (ops.cumprod, lambda a, b: a * b, 1.0)):
        y = evaluate(lambda x, op=op: op(x, axis=axis, exclusive=exclusive, reverse=reverse), x)
        expected = np.moveaxis(scanned(turned, function, identity, exclusive, reverse), -1, axis)
        np.testing.assert_array_equal(y, expected, strict=True)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64"])
def test_integers_and_bools_run_up_in_int64(dtype: str):
    x = np.full((300,), 200 if dtype != "bool" else 1, dtype)
    y = evaluate(ops.cumsum, x)
    assert (y.dtype, y[-1]) == (np.int64, 300 * int(x[0]))
    assert evaluate(lambda x: ops.cumprod(x[:3]), x).tolist() == [int(x[0]) ** k for k in (1, 2, 3)]
    assert evaluate(lambda x: ops.prod(x[:3]), x).tolist() == int(x[0]) ** 3


def products_without(x: np.ndarray) -> np.ndarray:
    """For each element the product of all others."""
    return np.array([np.prod(np.delete(x, i)) for i in range(x.size)])


@pytest.mark.parametrize("zeros", [(), (2,), (1, 3), (0, 1, 4)], ids=str)
def test_zeros_do_not_spoil_the_gradient_of_a_product(zeros: tuple[int, ...]):
    x = np.array([1.5, -2.0, 3.0, 0.5, -1.0])
    x[list(zeros)] = 0
    np.testing.assert_allclose(gradient(ops.prod, x)[0], products_without(x), rtol=1e-15)
    square = np.stack([x, x[::-1]]).copy()
    np.testing.assert_allclose(gradient(ops.prod, square)[0].reshape(-1), products_without(square.reshape(-1)))
    expected = sum(np.pad(products_without(x[:stop]), (0, 5 - stop)) for stop in range(1, 6))
    np.testing.assert_allclose(gradient(ops.cumprod, x)[0], expected, rtol=1e-15)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 9, 100])
def test_a_linear_recurrence_is_that_of_a_loop(length: int, reverse: bool):
    a, b = np.random.default_rng(length).normal(size=(2, 3, length))
    y = np.zeros((3, length + 1))
    for i in range(length):
        y[:, i + 1] = a[:, i] * y[:, i] + b[:, i]
    if reverse:
        a, b, y = a[:, ::-1].copy(), b[:, ::-1].copy(), y[:, ::-1]
    expected = y[:, :-1] if reverse else y[:, 1:]
    found = evaluate(lambda a, b: ops.linear_scan(a, b, reverse=reverse), a, b)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


def test_a_scan_of_nothing_is_nothing():
    for op in (ops.cumsum, ops.cumprod):
        assert evaluate(lambda x, op=op: op(x, exclusive=True), np.zeros((3, 0))).shape == (3, 0)
    assert evaluate(ops.linear_scan, np.zeros((3, 0)), np.zeros((3, 0))).shape == (3, 0)


@pytest.mark.parametrize("first", [NAN, INF, -INF])
def test_the_first_factor_of_a_linear_scan_is_multiplied_by_zero(first: float):
    a, b = np.array([first, 0.5, 0.5]), np.ones(3)
    assert np.isnan(evaluate(lambda a, b: ops.linear_scan(a, b, axis=0), a, b)).all()


def test_min_and_argmin_take_the_least_and_the_first_of_equals():
    x = np.array([[1.0, -2.0, -2.0], [5.0, 0.0, 0.0]])
    assert evaluate(lambda x: ops.min(x, axis=(1,)), x).tolist() == [-2, 0]
    assert evaluate(ops.argmin, x).tolist() == [1, 1]
    assert evaluate(lambda x: ops.argmin(x, axis=0), x).tolist() == [0, 0, 0]
    assert gradient(lambda x: ops.min(x, axis=(1,)), x)[0].tolist() == [[0, 0.5, 0.5], [0, 0.5, 0.5]]
    assert math.isnan(evaluate(ops.min, np.array([NAN, 1.0])))


def test_any_and_all_are_pythons():
    x = np.array([[True, False], [True, True], [False, False]])
    assert evaluate(lambda x: ops.any(x, axis=(1,)), x).tolist() == [any(row) for row in x]
    assert evaluate(lambda x: ops.all(x, axis=(1,)), x).tolist() == [all(row) for row in x]
    assert evaluate(ops.any, np.zeros((0,), "bool")).tolist() is False
    assert evaluate(ops.all, np.zeros((0,), "bool")).tolist() is True


def test_logsumexp_neither_overflows_nor_loses_what_is_small():
    x = np.array([[1000.0, 1000.0], [-1000.0, -1001.0], [-INF, 3.0], [-INF, -INF], [INF, 0.0]])
    y = evaluate(lambda x: ops.logsumexp(x, axis=(1,)), x)
    expected = [1000 + math.log(2), -1000 + math.log1p(math.exp(-1)), 3.0, -INF, INF]
    np.testing.assert_allclose(y, expected, rtol=1e-15)
    [dx] = gradient(lambda x: ops.logsumexp(x, axis=(1,)), x[:4].copy())
    np.testing.assert_allclose(dx.sum(axis=1), [1, 1, 1, 0], rtol=1e-12)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axes", [(), (1,), (0, -1)], ids=str)
@pytest.mark.parametrize("correction", [0, 1, 1.5])
def test_variance_and_deviation_are_numpys(correction: float, axes: tuple[int, ...], keepdims: bool):
    x = np.random.default_rng(0).normal(size=(3, 4, 5)) + 100
    expected = np.var(x, axis=axes or None, ddof=correction, keepdims=keepdims)
    how = dict(axis=axes, correction=correction, keepdims=keepdims)
    np.testing.assert_allclose(evaluate(lambda x: ops.variance(x, **how), x), expected, rtol=1e-13)
    np.testing.assert_allclose(evaluate(lambda x: ops.standard_deviation(x, **how), x), np.sqrt(expected), rtol=1e-13)


def test_where_nothing_varies_the_gradient_of_the_deviation_is_zero():
    assert gradient(ops.standard_deviation, np.array([2.0, 2.0, 2.0]))[0].tolist() == [0, 0, 0]


def test_too_few_elements_have_no_variance():
    assert math.isnan(evaluate(lambda x: ops.variance(x, correction=1), np.array([3.0])))
    assert evaluate(lambda x: ops.variance(x, correction=2), np.array([3.0, 4.0])) == INF


@pytest.mark.parametrize("p", [1, 2, INF, -INF, 0, 3, 0.5, -1])
def test_a_norm_is_numpys(p: float):
    x = np.random.default_rng(0).normal(size=(4, 5))
    y = evaluate(lambda x: ops.norm(x, ord=p, axis=(1,)), x)
    np.testing.assert_allclose(y, np.linalg.norm(x, p, axis=1), rtol=1e-14)
    y = evaluate(lambda x: ops.norm(x, ord=p), x)
    np.testing.assert_allclose(y, np.linalg.norm(x.reshape(-1), p), rtol=1e-14)


@pytest.mark.parametrize("p", [1, 2, INF, 3, 1.5])
def test_the_gradient_of_a_norm_is_zero_at_zero(p: float):
    assert gradient(lambda x: ops.norm(x, ord=p), np.zeros(3))[0].tolist() == [0, 0, 0]
    assert gradient(lambda x: ops.norm(x, ord=p), np.array([0.0, -2.0]))[0].tolist() == [0, -1]


def test_a_zero_rules_a_norm_of_negative_order_and_leaves_no_gradient():
    x = np.array([1.0, 0.0, -2.0])
    assert evaluate(lambda x: ops.norm(x, ord=-1.0), x) == 0
    assert gradient(lambda x: ops.norm(x, ord=-1.0), x)[0].tolist() == [0, 0, 0]


def test_equal_extremes_share_the_gradient_of_a_norm():
    assert gradient(lambda x: ops.norm(x, ord=INF), np.array([2.0, -2.0, 1.0]))[0].tolist() == [0.5, -0.5, 0]
    assert gradient(lambda x: ops.norm(x, ord=-INF), np.array([2.0, -2.0, 3.0]))[0].tolist() == [0.5, -0.5, 0]


CALLS = [
    (lambda x: ops.any(x), "any(x: float64[2, 3]): needs bool, not float64; cast it first"),
    (lambda x: ops.cumsum(x, axis=2), "cumsum(x: float64[2, 3]): axis 2 is out of range for rank 2"),
    (lambda x: ops.min(x[:, :0]), "min(x: float64[2, 0]): axis 1 has no elements and so no minimum"),
    (
        lambda x: ops.norm(x[:, :0], ord=INF),
        "norm(x: float64[2, 0]): axis 1 has no elements and so no norm of order inf",
    ),
    (lambda x: ops.norm(x, ord=NAN), "norm(x: float64[2, 3]): ord is NaN"),
    (
        lambda x: ops.linear_scan(x, x[0]),
        "linear_scan(a: float64[2, 3], b: float64[3]): a is float64[2, 3], b is float64[3]",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), CALLS, ids=[sentence.split(":")[0] for _, sentence in CALLS])
def test_a_call_that_makes_no_sense_is_an_error(call: Callable[[Value], Value], sentence: str):
    _, [x] = block_of((np.zeros((2, 3)),))
    assert told(OpError, lambda: call(x)) == sentence

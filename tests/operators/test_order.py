"""Sorting, places, the largest elements, numbers of different ones: against Python's sorted and set."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from subjects.evaluate import block_of, evaluate, gradient

from prograd_proto import TensorType
from registry import OpError, Value, ops
from runtime.errors import ExecutionError

NAN, INF = math.nan, math.inf
DTYPES = ["float32", "float64", "int32", "int64", "uint8"]


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Numbers with many equal ones, far apart where the dtype can."""
    x = np.random.default_rng(0).integers(0, 5, shape)
    if dtype == "int64":
        return np.array([-(2**63), -1, 0, 2**32 + 7, 2**63 - 1])[x]
    return (x * 50 - (0 if dtype == "uint8" else 77)).astype(dtype)


def sorted_places(row: list, descending: bool) -> list[int]:
    return sorted(range(len(row)), key=lambda i: (-row[i] if descending else row[i], i))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sorting_is_pythons_and_keeps_the_order_of_equals(dtype: str, axis: int, descending: bool):
    x = numbers((6, 7, 8), dtype)
    rows = np.moveaxis(x, axis, -1)
    expected = np.array([sorted_places(row.tolist(), descending) for row in rows.reshape(-1, x.shape[axis])])
    expected = np.moveaxis(expected.reshape(rows.shape), -1, axis)
    places = evaluate(lambda x: ops.argsort(x, axis=axis, descending=descending), x)
    np.testing.assert_array_equal(places, expected, strict=True)
    y = evaluate(lambda x: ops.sort(x, axis=axis, descending=descending), x)
    np.testing.assert_array_equal(y, np.take_along_axis(x, expected, axis), strict=True)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [0, 1, 3, 8])
@pytest.mark.parametrize("dtype", DTYPES)
def test_topk_is_the_start_of_the_sorted_elements(dtype: str, k: int, largest: bool):
    x = numbers((6, 8), dtype)
    y, indices = evaluate(lambda x: ops.topk(x, k=k, largest=largest), x)
    expected = np.array([sorted_places(row, largest)[:k] for row in x.tolist()], "int64").reshape(6, k)
    np.testing.assert_array_equal(indices, expected, strict=True)
    np.testing.assert_array_equal(y, np.take_along_axis(x, expected, 1), strict=True)
    turned = evaluate(lambda x: ops.topk(x, k=k, largest=largest, axis=0), x.T.copy())
    assert [array.T.tolist() for array in turned] == [y.tolist(), indices.tolist()]


def test_nan_is_the_largest():
    x = np.array([1.0, NAN, -INF, INF, NAN, 0.0])
    assert evaluate(ops.argsort, x).tolist() == [2, 5, 0, 3, 1, 4]
    assert evaluate(lambda x: ops.argsort(x, descending=True), x).tolist() == [1, 4, 3, 0, 5, 2]
    assert np.isnan(evaluate(ops.sort, x)).tolist() == [False] * 4 + [True] * 2
    assert np.isnan(evaluate(lambda x: ops.sort(x, descending=True), x)).tolist() == [True] * 2 + [False] * 4
    assert evaluate(lambda x: ops.topk(x, k=3), x)[1].tolist() == [1, 4, 3]
    assert evaluate(lambda x: ops.topk(x, k=3, largest=False), x)[1].tolist() == [2, 5, 0]


def test_the_gradient_goes_where_the_elements_came_from():
    x, weight = np.array([3.0, 1.0, 2.0, 1.0]), np.array([10.0, 20.0, 30.0, 40.0])
    [dx] = gradient(
        lambda x: ops.sort(x) * ops.cast(ops.cumsum(ops.cast(x * 0.0 + 1.0, dtype="int64")), dtype="float64"), x
    )
    assert dx.tolist() == [4, 1, 3, 2]
    [dx, _] = gradient(lambda x, w: ops.topk(x, k=2)[0] * w[:2], x, weight)
    assert dx.tolist() == [10, 0, 20, 0]


def test_different_elements_are_counted():
    for dtype in DTYPES:
        x = numbers((4, 5), dtype)
        assert evaluate(ops.count_unique, x) == len(set(x.reshape(-1).tolist()))
    assert evaluate(ops.count_unique, np.array([NAN, 0.0, NAN, -0.0, INF, -INF])) == 4
    assert evaluate(ops.count_unique, np.zeros((0,))) == 0


def test_numbers_are_counted_and_one_outside_stops_the_run():
    for dtype in ("int32", "int64"):
        x = np.array([[0, 3, 3], [1, 3, 0]], dtype)
        assert evaluate(lambda x: ops.bincount(x, depth=5), x).tolist() == [2, 1, 0, 3, 0]
        with pytest.raises(ExecutionError) as caught:
            evaluate(lambda x: ops.bincount(x, depth=3), x)
        assert str(caught.value) == "index 3 is out of range: there are 3 places, from 0"


CALLS = [
    (lambda x: ops.topk(x, k=4), "topk(x: float64[2, 3]): k is 4, axis 1 has 3 elements"),
    (lambda x: ops.sort(x > 0.0), "sort(x: bool[2, 3]): needs float32 or float64 or int32 or int64 or uint8, not bool"),
    (lambda x: ops.bincount(x, depth=3), "bincount(indices: float64[2, 3]): needs int32 or int64, not float64"),
]


@pytest.mark.parametrize(("call", "sentence"), CALLS, ids=[sentence.split(":")[0] for _, sentence in CALLS])
def test_a_call_that_makes_no_sense_is_an_error(call: Callable[[Value], Value], sentence: str):
    _, [x] = block_of((np.zeros((2, 3)),))
    with pytest.raises(OpError) as caught:
        call(x)
    assert str(caught.value).removesuffix("; cast it first") == sentence


def test_an_int64_axis_has_a_greatest_length():
    block, _ = block_of((np.zeros(1),))
    x = block.define("long", TensorType("int64", (2**21 + 1,)))
    with pytest.raises(OpError) as caught:
        ops.argsort(x)
    assert str(caught.value) == (
        "argsort(x: int64[2097153]): axis 0 has 2097153 elements, of int64 at most 2097152; "
        "cast to float64 if that is exact"
    )

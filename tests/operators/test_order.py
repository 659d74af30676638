"""Sorting, places, the largest, different, nonzero elements, boxes that overlap little: against Python and NumPy."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from subjects.commands import told
from subjects.evaluate import block_of, evaluate, gradient

import prograd
from prograd import Program
from prograd_proto import TensorType
from registry import OpError, Value, ops
from runtime.errors import ExecutionError

NAN, INF = math.nan, math.inf
RNG = np.random.default_rng(26)
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
    assert told(OpError, lambda: call(x)).removesuffix("; cast it first") == sentence


def test_an_int64_axis_has_a_greatest_length():
    block, _ = block_of((np.zeros(1),))
    x = block.define("long", TensorType("int64", (2**21 + 1,)))
    assert told(OpError, lambda: ops.argsort(x)) == (
        "argsort(x: int64[2097153]): axis 0 has 2097153 elements, of int64 at most 2097152; "
        "cast to float64 if that is exact"
    )


engines = pytest.mark.parametrize("engine", ["reference", "native"])


def run(engine: Any, function: Callable[..., tuple[Value, ...]], *arrays: Any) -> list[Any]:
    """Return the results of a function for arrays."""
    program = Program("select")
    given = [program.input(f"x{i}", a.dtype.name, a.shape) for i, a in enumerate(arrays)]
    results: dict[str, Any] = dict(zip("abcde", function(*given), strict=False))
    program.entry("predict", **results)
    started = prograd.Run(program.compile(), engine=engine)
    read = started.entries["predict"].feeds
    made = started.step({f"x{i}": a for i, a in enumerate(arrays) if f"x{i}" in read}, entry="predict")
    return [np.asarray(made[name]) for name in results]


def sparse(shape: tuple[int, ...], dtype: str) -> Any:
    x = RNG.integers(-2, 3, shape).astype(dtype)
    if dtype.startswith("float"):
        x.reshape(-1)[::7] = np.nan
        x.reshape(-1)[3::11] = -0.0
    return x


@pytest.mark.sampled(6)
@engines
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("float32", (32, 64)),
        ("int64", (7,)),
        ("bool", (3, 4, 5)),
        ("uint8", (1, 1)),
        ("float64", (6,)),
        ("int32", (9,)),
    ],
)
def test_nonzero_gives_the_rows_of_argwhere(engine: Any, dtype: str, shape: tuple[int, ...]):
    x = sparse(shape, dtype)
    wanted = np.argwhere(x)
    for count in (max(len(wanted), 1), len(wanted) + 5, max(len(wanted) // 2, 1)):
        found, number = run(engine, partial(ops.nonzero, count=count), x)
        assert number == len(wanted)
        assert found.shape == (count, len(shape))
        rows = min(count, len(wanted))
        np.testing.assert_array_equal(found[:rows], wanted[:rows])
        assert not found[rows:].any()


@engines
def test_nonzero_of_a_number_and_of_nothing(engine: Any):
    for x, number in ((np.float32(3), 1), (np.float32(0), 0)):
        found = run(engine, partial(ops.nonzero, count=2), np.asarray(x))
        assert found[0].shape == (2, 0)
        assert found[1] == number
    assert run(engine, partial(ops.nonzero, count=2), np.zeros((0, 3), np.float32))[1] == 0


@pytest.mark.sampled(4)
@engines
@pytest.mark.parametrize(
    ("dtype", "shape"), [("float32", (32, 16)), ("int64", (40,)), ("uint8", (1,)), ("float64", (30,)), ("int32", (9,))]
)
@pytest.mark.parametrize("ordered", [True, False])
def test_unique_elements_are_those_of_numpy(engine: Any, dtype: str, shape: tuple[int, ...], ordered: bool):
    x = sparse(shape, dtype)
    wanted = list(np.unique(x, return_index=True, return_inverse=True, return_counts=True))
    if not ordered:
        wanted = in_first_order(wanted)
    size = len(wanted[0])
    for count in (size, size + 3):
        found = run(engine, partial(ops.unique, count=count, sorted=ordered), x)
        assert found[4] == size
        np.testing.assert_array_equal(found[0][:size], x.reshape(-1)[wanted[1]])
        np.testing.assert_array_equal(found[1][:size], wanted[1])
        np.testing.assert_array_equal(found[2], wanted[2].reshape(-1))
        np.testing.assert_array_equal(found[3][:size], wanted[3])
        assert not found[1][size:].any()
        assert not found[3][size:].any()


def in_first_order(found: list[Any]) -> list[Any]:
    """Return NumPy's unique elements in the order of their first positions."""
    order = np.argsort(found[1])
    rank = np.argsort(order)
    return [found[0][order], found[1][order], rank[found[2]], found[3][order]]


@engines
def test_fewer_unique_elements_than_there_are_keep_their_number(engine: Any):
    x = np.array([5, 3, 9, 3, 1], np.int32)
    values, first, inverse, counts, number = run(engine, partial(ops.unique, count=2), x)
    assert (values.tolist(), first.tolist(), counts.tolist(), int(number)) == ([1, 3], [4, 1], [1, 2], 4)
    assert inverse.tolist() == [2, 1, 3, 1, 0]


@engines
@pytest.mark.parametrize(("shape", "axis"), [((32, 3), 0), ((3, 40), 1), ((4, 5, 2), -2), ((4, 5, 2), 0)])
def test_unique_slices_are_those_of_numpy(engine: Any, shape: tuple[int, ...], axis: int):
    x = RNG.integers(0, 2, shape).astype(np.float32)
    values, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    size = len(first)
    found = run(engine, partial(ops.unique, count=size, axis=axis), x)
    np.testing.assert_array_equal(found[0], values)
    np.testing.assert_array_equal(found[1], first)
    np.testing.assert_array_equal(found[2], inverse.reshape(-1))
    np.testing.assert_array_equal(found[3], counts)
    assert found[4] == size


@engines
def test_the_gradient_of_unique_flows_to_the_first_of_equal_elements(engine: Any):
    program = Program("unique")
    x = program.parameter("x", (5,), prograd.constant(0.0))
    weights = program.input("w", "float32", (3,))
    program.minimize(ops.sum(ops.unique(x, count=3)[0] * weights), prograd.sgd(1.0))
    started = prograd.Run(program.compile(), engine=engine)
    started.state["x"] = np.array([2, 1, 2, 3, 1], np.float32)
    started.step({"w": np.array([10, 20, 30], np.float32)})
    np.testing.assert_array_equal(started.state["x"], [2 - 20, 1 - 10, 2, 3 - 30, 1])


def suppressed(boxes: Any, scores: Any, most: int, shared: float, least: float | None, center: bool) -> list[Any]:
    """Return the rows of non-max suppression, by loops over boxes."""
    rows: list[Any] = []
    for n in range(len(scores)):
        for c in range(len(scores[n])):
            order = sorted(range(len(boxes[n])), key=lambda i: -scores[n][c][i])
            kept: list[int] = []
            for i in order:
                if least is not None and not scores[n][c][i] > least:
                    continue
                if len(kept) < most and all(overlap(boxes[n][i], boxes[n][k], center) <= shared for k in kept):
                    kept.append(i)
            rows += [[n, c, i] for i in kept]
    return rows


def overlap(a: Any, b: Any, center: bool) -> float:
    """Return the intersection of two boxes divided by their union."""
    edges: list[tuple[float, float, float, float]] = []
    for box in (a, b):
        p, q, r, s = (float(v) for v in box)
        edges.append((p - r / 2, q - s / 2, p + r / 2, q + s / 2) if center else sides(p, q, r, s))
    (a0, a1, a2, a3), (b0, b1, b2, b3) = edges
    inside = max(min(a2, b2) - max(a0, b0), 0) * max(min(a3, b3) - max(a1, b1), 0)
    union = (a2 - a0) * (a3 - a1) + (b2 - b0) * (b3 - b1) - inside
    return inside / union if inside else 0.0


def sides(p: float, q: float, r: float, s: float) -> tuple[float, float, float, float]:
    return min(p, r), min(q, s), max(p, r), max(q, s)


@pytest.mark.sampled(3)
@engines
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize(("most", "least"), [(3, None), (100, 0.3), (1, 0.9)])
def test_boxes_are_chosen_as_by_loops(engine: Any, center: bool, most: int, least: float | None):
    boxes = RNG.uniform(0, 1, (2, 60, 4)).astype(np.float32)
    scores = np.round(RNG.uniform(0, 1, (2, 3, 60)), 1).astype(np.float32)  # many are equal
    wanted = suppressed(boxes, scores, most, 0.2, least, center)

    def chosen(b: Value, s: Value) -> tuple[Value, ...]:
        return ops.non_max_suppression(
            b, s, count=200, max_per_class=most, iou_threshold=0.2, score_threshold=least, center=center
        )

    found, number = run(engine, chosen, boxes, scores)
    assert number == len(wanted)
    assert found[: len(wanted)].tolist() == wanted
    assert not found[len(wanted) :].any()


@engines
def test_no_box_is_chosen_where_none_may_be(engine: Any):
    boxes, scores = RNG.uniform(0, 1, (1, 8, 4)), RNG.uniform(0, 1, (1, 2, 8))
    for most, least in ((0, 0.0), (3, 2.0)):
        chosen = partial(ops.non_max_suppression, count=4, max_per_class=most, score_threshold=least)
        found, number = run(engine, chosen, boxes, scores)
        assert number == 0
        assert not found.any()


def test_faults_are_told():
    program = Program("p")
    x, boxes = program.input("x", "float32", ("batch", 3)), program.input("b", "float32", (1, 8, 4))
    scores, truths = program.input("s", "float32", (1, 2, 7)), program.input("t", "bool", (4,))
    ones = program.input("o", "float32", (1, 4, 4))
    wide, none = program.input("w", "float32", (4, 300)), program.input("n", "float32", (0, 3))
    mistakes: list[tuple[Callable[[], object], str]] = [
        (lambda: ops.nonzero(x, count=3), "an extent of x is the symbol 'batch'; here it must be a number"),
        (lambda: ops.nonzero(boxes, count=0), "count=0 is no bound; give at least 1"),
        (lambda: ops.unique(truths, count=3), "x is bool; cast it to int32"),
        (lambda: ops.unique(none, count=3), "x has no elements"),
        (
            lambda: ops.unique(wide, count=3, axis=0),
            "slices along axis 0 have 300 elements, and at most 256 are compared",
        ),
        (
            lambda: ops.non_max_suppression(boxes, scores, count=3, max_per_class=2),
            "boxes is float32[1, 8, 4], and its shape has to be [1, 7, 4]",
        ),
        (
            lambda: ops.non_max_suppression(boxes, x, count=3, max_per_class=2),
            "scores is float32[batch, 3], and has to be [images, classes, boxes]",
        ),
        (lambda: ops.non_max_suppression(ones, boxes, count=3, max_per_class=-1), "max_per_class=-1 is negative"),
    ]
    for call, message in mistakes:
        with pytest.raises(OpError) as caught:
            call()
        assert str(caught.value).endswith(message), str(caught.value)

"""Selections whose number of rows is data: nonzero elements, unique elements, boxes that overlap little.

The number of rows in the result is bounded by `count`, because shapes are static; a further result has the number of
rows that there are. Rows behind it are 0, and rows beyond the bound are left out.
"""

from __future__ import annotations

from math import prod

from prograd_proto import dtypes
from prograd_proto.result_types.shapes import normal_axis, require_equal_dtypes, require_float, size_known
from registry.control.tracing import scan
from registry.errors import require
from registry.ops.arrange import stack, unsqueeze
from registry.ops.fill import full, full_like
from registry.ops.fill import range as count_up
from registry.ops.index import gather
from registry.ops.logic import isnan
from registry.ops.order import argsort
from registry.ops.pointwise import (
    clip,
    equal,
    greater,
    less,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    not_equal,
    where,
)
from registry.ops.reduce import any, argmax, sum
from registry.ops.rounding import floor_div, remainder
from registry.ops.scan import cumsum
from registry.ops.scatter import gather_nd, scatter_nd
from registry.ops.shape import concat, reshape, transpose
from registry.spelled import spelled
from registry.value import Value

MAX_COMPARED_COLUMNS = 256
"""Upper bound on the elements of a row that `unique` compares; it sorts once for each."""

LOWEST_SCORE = {"float32": -3.4028234663852886e38, "float64": -1.7976931348623157e308}
"""Score that an infinitely low one counts as."""


@spelled
def nonzero(x: Value, *, count: int) -> tuple[Value, Value]:
    """Return the indices of the first `count` elements that are not 0, int64[count, rank], and the number of them all.

    The order is that of NumPy's argwhere: the last axis runs fastest. NaN is not 0. Rows behind the number are 0.
    """
    sizes = _sizes(x)
    if not prod(sizes):
        return _nothing(x, (_bound(count), x.rank))
    chosen = reshape(x if x.dtype == "bool" else not_equal(x, 0), shape=(prod(sizes),))
    flat, number = _first(chosen, _bound(count))
    columns: list[Value] = []
    for axis, size in enumerate(sizes):
        inner = prod(sizes[axis + 1 :])
        columns.append(remainder(floor_div(flat, inner), size))
    if not columns:
        return full.on(x.block)(shape=(count, 0), value=0, dtype="int64"), number
    return stack(*columns, axis=1), number


@spelled
def unique(
    x: Value, *, count: int, axis: int | None = None, sorted: bool = True
) -> tuple[Value, Value, Value, Value, Value]:
    """Return the first `count` different elements of x, or different slices along `axis`, and four more tensors.

    These are, as for NumPy's unique: the position of the first one of each, int64[count]; for each element or slice,
    the index of its like, int64; the counts, int64[count]; and the number of different ones, int64 of rank 0. Elements
    are flattened if `axis` is None. The order rises, along `axis` by the first element that differs, or is that of the
    first positions if `sorted` is False. All NaN are equal, and the largest. After the last different element,
    positions are 0, so that they refer to the first element of x, and counts are 0. The gradient flows to the first of
    equal elements.
    """
    sizes = _sizes(x)
    require(x.dtype != "bool", "x is bool; cast it to int32")
    require(prod(sizes) > 0, "x has no elements")
    bound = _bound(count)
    axis = axis if axis is None else normal_axis(axis, x.rank)
    rows = _rows(x, sizes, axis)
    first, inverse, counts, number = _groups(rows, sorted)
    missing = max(bound - int(first.shape[0]), 0)
    first, counts = (_padded(v, missing)[:bound] for v in (first, counts))
    values = gather(reshape(x, shape=(prod(sizes),)), first) if axis is None else gather(x, first, axis=axis)
    return values, first, inverse, counts, number


@spelled
def non_max_suppression(
    boxes: Value,
    scores: Value,
    *,
    count: int,
    max_per_class: int,
    iou_threshold: float = 0.0,
    score_threshold: float | None = None,
    center: bool = False,
) -> tuple[Value, Value]:
    """Return the image, the class and the index of boxes that overlap little, int64[count, 3], and the number of them.

    Of every class in every image, boxes are chosen in the order of falling scores, the first of equal ones first: at
    most `max_per_class`, with a score above `score_threshold`, and whose intersection with each one before is at most
    `iou_threshold` of their union. Rows behind the number are 0.

    `boxes` is [n, boxes, 4]: two opposite corners y, x, y, x, or x and y of the center, width and height if `center`.
    `scores` is [n, classes, boxes]. The order of rows is that of images, classes and falling scores. Time grows with
    max_per_class * n * classes * boxes. No gradient flows.
    """
    require_float(boxes)
    require_equal_dtypes(boxes.type, scores.type)
    require(scores.rank == 3, f"scores is {scores.type}, and has to be [images, classes, boxes]")
    n, classes, size = (size_known(extent, "an extent of scores") for extent in scores.shape)
    require(boxes.shape == (n, size, 4), f"boxes is {boxes.type}, and its shape has to be {[n, size, 4]}")
    require(max_per_class >= 0, f"max_per_class={max_per_class} is negative")
    bound, rounds = _bound(count), min(max_per_class, size)
    if not rounds or not n * classes:
        return _nothing(boxes, (bound, 3))
    chosen = _chosen(_corners(boxes, center), scores, rounds, iou_threshold, score_threshold)  # [rounds, n, classes]
    flat = reshape(transpose(chosen, axis=(1, 2, 0)), shape=(n * classes * rounds,))
    places, number = _first(flat >= 0, bound)
    image = floor_div(places, classes * rounds)
    kind = remainder(floor_div(places, rounds), classes)
    box = where(less(_counted(flat, bound), number), gather(flat, places), 0)
    return stack(image, kind, box, axis=1), number


def _sizes(x: Value) -> tuple[int, ...]:
    return tuple(size_known(extent, "an extent of x") for extent in x.shape)


def _bound(count: int) -> int:
    require(not isinstance(count, bool) and count >= 1, f"count={count} is no bound; give at least 1")
    return count


def _nothing(x: Value, shape: tuple[int, ...]) -> tuple[Value, Value]:
    zeros = full.on(x.block)
    return zeros(shape=shape, value=0, dtype="int64"), zeros(shape=(), value=0, dtype="int64")


def _true(x: Value) -> Value:
    return full.on(x.block)(shape=x.shape, value=1, dtype="bool")


def _counted(x: Value, size: int) -> Value:
    """Return 0, 1, 2 ... in the block of x."""
    return count_up.on(x.block)(stop=size)


def _first(chosen: Value, count: int) -> tuple[Value, Value]:
    """Return the positions of the first `count` true elements of a vector, then 0, and the number of true ones."""
    size = size_known(chosen.shape[0], "the extent of a vector")
    number = sum(chosen)
    before = cumsum(chosen, axis=0, exclusive=True)
    slot = where(chosen, clip(before, 0, count), count)  # the last slot takes the elements that are left out
    places = full.on(chosen.block)(shape=(count + 1,), value=0, dtype="int64")
    return scatter_nd(places, unsqueeze(slot, axis=(1,)), _counted(chosen, size))[:count], number


def _padded(x: Value, missing: int) -> Value:
    return concat(x, full.on(x.block)(shape=(missing,), value=0, dtype=x.dtype), axis=0) if missing else x


def _rows(x: Value, sizes: tuple[int, ...], axis: int | None) -> Value:
    """Return the compared items as rows: elements, or slices along an axis."""
    if axis is None:
        return reshape(x, shape=(prod(sizes), 1))
    order = (axis, *(i for i, _ in enumerate(sizes) if i != axis))
    columns = prod(sizes) // sizes[axis]
    limit = f"{MAX_COMPARED_COLUMNS} are compared"
    require(columns <= MAX_COMPARED_COLUMNS, f"slices along axis {axis} have {columns} elements, and at most {limit}")
    return reshape(transpose(x, axis=order), shape=(sizes[axis], columns))


def _groups(rows: Value, ordered: bool) -> tuple[Value, Value, Value, Value]:
    """Return for rows the first positions of their groups, the group of each row, the sizes and number of groups."""
    size, columns = (size_known(extent, "an extent of rows") for extent in rows.shape)
    order = _counted(rows, size)
    for column in range(columns - 1, -1, -1):  # the sort keeps the order of equal ones
        order = gather(order, argsort(gather(rows[:, column], order)))
    ranked = gather(rows, order)
    is_new = any(_differs(ranked[1:], ranked[:-1]), axis=1)
    starts = concat(_true(rows[:1, 0]), is_new, axis=0)
    group = cumsum(starts, axis=0) - 1
    at = unsqueeze(group, axis=(1,))
    zeros = full.on(rows.block)(shape=(size,), value=0, dtype="int64")
    number = sum(starts)
    beyond = full_like(zeros, size)
    first = scatter_nd(beyond, at, order, reduction="min")
    if not ordered:
        rank = argsort(first)  # of each new group, the old one
        number_of = scatter_nd(zeros, unsqueeze(rank, axis=(1,)), _counted(rows, size))
        group = gather(number_of, group)
        at, first = unsqueeze(group, axis=(1,)), gather(first, rank)
    counts = scatter_nd(zeros, at, full_like(zeros, 1), reduction="add")
    inverse = scatter_nd(zeros, unsqueeze(order, axis=(1,)), group)
    return where(equal(first, size), 0, first), inverse, counts, number


def _differs(a: Value, b: Value) -> Value:
    apart = not_equal(a, b)
    if a.dtype in dtypes.FLOATS:
        apart = logical_and(apart, logical_not(logical_and(isnan(a), isnan(b))))
    return apart


def _corners(boxes: Value, center: bool) -> tuple[Value, Value, Value, Value]:
    """Return the lesser and the greater coordinates of boxes along both axes, [n, boxes] each."""
    a, b, c, d = (boxes[..., i] for i in (0, 1, 2, 3))
    if center:
        return a - c / 2.0, b - d / 2.0, a + c / 2.0, b + d / 2.0
    return minimum(a, c), minimum(b, d), maximum(a, c), maximum(b, d)


def _chosen(
    corners: tuple[Value, Value, Value, Value], scores: Value, rounds: int, most_shared: float, least: float | None
) -> Value:
    """Return the index of the box that each round chooses for each image and class, and -1 where none is left."""
    top, left, bottom, right = (unsqueeze(v, axis=(1,)) for v in corners)
    area = (bottom - top) * (right - left)
    whole = stack(*corners, axis=-1)
    number = _counted(scores, int(scores.shape[2]))
    alive = _true(scores) if least is None else greater(scores, least)

    def step(alive: Value, _: object) -> tuple[Value, Value]:
        ranked = where(alive, maximum(scores, LOWEST_SCORE[scores.dtype]), float("-inf"))
        best = argmax(ranked, axis=-1)
        box = gather_nd(whole, unsqueeze(best, axis=(-1,)), batch_axes=1)
        y0, x0, y1, x1 = (unsqueeze(box[..., i], axis=(-1,)) for i in (0, 1, 2, 3))
        height = maximum(minimum(bottom, y1) - maximum(top, y0), 0.0)
        width = maximum(minimum(right, x1) - maximum(left, x0), 0.0)
        shared = height * width
        union = area + (y1 - y0) * (x1 - x0) - shared
        is_same = equal(number, unsqueeze(best, axis=(-1,)))
        is_out = logical_or(is_same, greater(shared, union * most_shared))
        index = where(any(alive, axis=-1), best, -1)
        return logical_and(alive, logical_not(is_out)), index

    return scan(step, alive, length=rounds)[1]

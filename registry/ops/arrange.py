"""Rearrangements composed of reshape, transpose, slice, concat and broadcast_to; none has a kernel of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from prograd_proto.result_types.shapes import joined_extent, normal_axes, normal_axis, size_known
from prograd_proto.result_types.windows import require_image
from registry.errors import require
from registry.ops.reduce import broadcast_to
from registry.ops.shape import concat, reshape, split, transpose
from registry.spelled import spelled
from registry.spellings import Axis, Numbers, as_tuple
from registry.value import Index, Value

BACKWARDS = slice(None, None, -1)


@spelled
def squeeze(x: Value, *, axis: Axis = ()) -> Value:
    """Return x without `axis`, one or several of extent 1; without all axes of extent 1 if empty."""
    if axis == ():
        return reshape(x, shape=tuple(extent for extent in x.shape if extent != 1))
    gone = normal_axes(axis, x.rank)
    for each in gone:
        require(x.shape[each] == 1, f"axis {each} has {x.shape[each]} elements, not 1")
    return reshape(x, shape=tuple(extent for each, extent in enumerate(x.shape) if each not in gone))


@spelled
def unsqueeze(x: Value, *, axis: Axis) -> Value:
    """Return x with new axes of extent 1 at `axis`, one position of the result or several."""
    axes = as_tuple(axis)
    require(len(axes) > 0, "axis is empty")
    rank = x.rank + len(axes)
    new = normal_axes(axes, rank)
    extents = iter(x.shape)
    return reshape(x, shape=tuple(1 if each in new else next(extents) for each in range(rank)))


@spelled
def flatten(x: Value, *, first: int = 1, last: int = -1) -> Value:
    """Return x with the axes from `first` to `last` merged; by default a row for each element of a batch."""
    first, last = normal_axis(first, x.rank), normal_axis(last, x.rank)
    require(first <= last, f"axis {first} comes after axis {last}")
    return reshape(x, shape=(*x.shape[:first], joined_extent(x.shape[first : last + 1]), *x.shape[last + 1 :]))


@spelled
def stack(*xs: Value, axis: int = 0) -> Value:
    """Return tensors of one type stacked along a new axis, which is `axis` of the result."""
    require(len(xs) > 0, "there is nothing to stack")
    for x in xs:
        require(x.type == xs[0].type, f"{x.type} and {xs[0].type} differ")
    axis = normal_axis(axis, xs[0].rank + 1)
    return concat(*(unsqueeze(x, axis=(axis,)) for x in xs), axis=axis)


@spelled
def unstack(x: Value, *, axis: int = 0) -> list[Value]:
    """Return the slices of x along `axis`, without that axis."""
    axis = normal_axis(axis, x.rank)
    count = size_known(x.shape[axis], "the extent of an unstacked axis")
    require(count > 0, f"axis {axis} has no elements")
    return [squeeze(piece, axis=(axis,)) for piece in split(x, sizes=(1,) * count, axis=axis)]


@spelled
def flip(x: Value, *, axis: Axis = ()) -> Value:
    """Return x with the elements reversed along `axis`; along all axes if empty."""
    turned = normal_axes(axis, x.rank)
    return x[tuple(BACKWARDS if each in turned else slice(None) for each in range(x.rank))]


@spelled
def roll(x: Value, *, shifts: Numbers, axis: Axis) -> Value:
    """Return x rotated by `shifts[i]` positions towards the end of `axis[i]`; each may be one number."""
    shifts, axes = as_tuple(shifts), as_tuple(axis)
    require(len(shifts) == len(axes), f"there are {len(shifts)} shifts for {len(axes)} axes")
    for shift, each in zip(shifts, axes, strict=True):
        each = normal_axis(each, x.rank)
        size = size_known(x.shape[each], "the extent of a rolled axis")
        start = -shift % size if size else 0
        if start:
            x = concat(_part(x, each, start, size), _part(x, each, 0, start), axis=each)
    return x


@spelled
def tile(x: Value, *, counts: tuple[int, ...]) -> Value:
    """Return `counts[i]` copies of x along axis i; as in NumPy, missing counts and leading axes are 1."""
    rank = max(x.rank, len(counts))
    x = reshape(x, shape=(*(1,) * (rank - x.rank), *x.shape))
    counts = (*(1,) * (rank - len(counts)), *counts)
    return _copied(x, counts, lambda extent, count: (count, extent))


@spelled
def repeat(x: Value, *, count: int, axis: int) -> Value:
    """Return x with each slice along `axis` repeated `count` times."""
    axis = normal_axis(axis, x.rank)
    counts = tuple(count if i == axis else 1 for i in range(x.rank))
    return _copied(x, counts, lambda extent, count: (extent, count))


@spelled
def pad_reflect(x: Value, *, before: tuple[int, ...], after: tuple[int, ...]) -> Value:
    """Return x with `before[i]` and `after[i]` elements mirrored at the ends of axis i.

    The outermost elements are not repeated: 1 2 3 becomes 3 2 1 2 3 2 1. A width is less than the extent.
    """
    for axis, left, right, size in _widths(x, before, after):
        require(max(left, right) < size, f"axis {axis} has {size} elements and can be mirrored by {size - 1} at most")
        mirrored = flip(x, axis=(axis,))
        x = _framed(mirrored, x, mirrored, axis, (size - 1 - left, size - 1), (1, 1 + right))
    return x


@spelled
def pad_edge(x: Value, *, before: tuple[int, ...], after: tuple[int, ...]) -> Value:
    """Return x with `before[i]` and `after[i]` copies of its outermost elements on axis i."""
    for axis, left, right, size in _widths(x, before, after):
        require(size > 0, f"axis {axis} has no elements to copy")
        first, last = (
            repeat(_part(x, axis, place, place + 1), count=count, axis=axis)
            for place, count in ((0, left), (size - 1, right))
        )
        x = _framed(first, x, last, axis, (0, left), (0, right))
    return x


@spelled
def pad_wrap(x: Value, *, before: tuple[int, ...], after: tuple[int, ...]) -> Value:
    """Return x with `before[i]` and `after[i]` elements of its opposite end on axis i."""
    for axis, left, right, size in _widths(x, before, after):
        require(max(left, right) <= size, f"axis {axis} has {size} elements and can be wrapped by {size} at most")
        x = _framed(x, x, x, axis, (size - left, size), (0, right))
    return x


@spelled
def meshgrid(*xs: Value, indexing: Literal["xy", "ij"] = "xy") -> list[Value]:
    """Return for each vector a tensor with an axis for every vector, in which it varies along its own axis.

    With "ij" the axes are in the order of the vectors; with "xy", as in NumPy, the first two are exchanged.
    """
    require(len(xs) > 0, "there is no vector")
    require(indexing in ("xy", "ij"), f"indexing={indexing!r} is not 'xy' or 'ij'")
    for x in xs:
        require(x.rank == 1, f"{x.type} is not a vector")
    order = list(range(len(xs)))
    if indexing == "xy":
        order[:2] = reversed(order[:2])
    shape = tuple(xs[i].shape[0] for i in order)
    lines = [reshape(x, shape=tuple(x.shape[0] if other == i else 1 for other in order)) for i, x in enumerate(xs)]
    return [broadcast_to(line, shape=shape) for line in lines]


@spelled
def space_to_depth(x: Value, *, block: int) -> Value:
    """Return images [n, h, w, c] as [n, h / block, w / block, block * block * c], blocks in row-major order."""
    n, height, width, channels = _image(x)
    require(block > 0, f"block={block} is not positive")
    require(height % block == width % block == 0, f"blocks of {block} do not fill {height} x {width} pixels")
    rows, columns = height // block, width // block
    blocks = reshape(x, shape=(n, rows, block, columns, block, channels))
    return reshape(transpose(blocks, axis=(0, 1, 3, 2, 4, 5)), shape=(n, rows, columns, block * block * channels))


@spelled
def depth_to_space(x: Value, *, block: int) -> Value:
    """Return images [n, h, w, block * block * c] as [n, h * block, w * block, c]; inverts space_to_depth."""
    n, rows, columns, channels = _image(x)
    require(block > 0, f"block={block} is not positive")
    require(channels % block**2 == 0, f"blocks of {block} x {block} pixels do not divide {channels} channels")
    depth = channels // block**2
    blocks = reshape(x, shape=(n, rows, columns, block, block, depth))
    return reshape(transpose(blocks, axis=(0, 1, 3, 2, 4, 5)), shape=(n, rows * block, columns * block, depth))


def _part(x: Value, axis: int, start: int, stop: int) -> Value:
    """Return the slices along one axis from `start` up to `stop`, both counted from the front."""
    key: list[Index] = [slice(None)] * x.rank
    key[axis] = slice(start, stop)
    return x[tuple(key)]


def _framed(
    left: Value, x: Value, right: Value, axis: int, of_left: tuple[int, int], of_right: tuple[int, int]
) -> Value:
    """Return x between parts of two tensors along `axis`; an empty part is omitted."""
    pieces = [_part(left, axis, *of_left)] if of_left[0] < of_left[1] else []
    pieces.append(x)
    pieces += [_part(right, axis, *of_right)] if of_right[0] < of_right[1] else []
    return concat(*pieces, axis=axis)


def _widths(x: Value, before: tuple[int, ...], after: tuple[int, ...]) -> list[tuple[int, int, int, int]]:
    """Return each padded axis with its widths before and after and its extent."""
    require(len(before) == len(after) == x.rank, f"before and after need {x.rank} widths each, one per axis")
    require(min((*before, *after), default=0) >= 0, "a width is negative; use slice to cut")
    widths = enumerate(zip(before, after, x.shape, strict=True))
    return [(axis, i, j, size_known(d, "a padded extent")) for axis, (i, j, d) in widths if i or j]


def _copied(x: Value, counts: tuple[int, ...], order: Callable[[int, int], tuple[int, int]]) -> Value:
    """Return x with `counts[i]` copies along axis i; `order` arranges the pair (copies, elements)."""
    narrow: list[int | str] = []
    wide: list[int | str] = []
    shape: list[int | str] = []
    for extent, count in zip(x.shape, counts, strict=True):
        require(count >= 0, f"the count {count} is negative")
        if count == 1:
            narrow.append(extent)
            wide.append(extent)
            shape.append(extent)
            continue
        size = size_known(extent, "a repeated extent")
        narrow += order(size, 1)
        wide += order(size, count)
        shape.append(size * count)
    if x.shape == tuple(shape):
        return x
    return reshape(broadcast_to(reshape(x, shape=tuple(narrow)), shape=tuple(wide)), shape=tuple(shape))


def _image(x: Value) -> tuple[int | str, int, int, int]:
    require_image(x)
    height, width, channels = (size_known(extent, "an extent of an image") for extent in x.shape[1:])
    return x.shape[0], height, width, channels

"""Slices, pieces, padding, positions and rows along axes of a model."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Literal

from compiler.frontends.arranged import Arranged, expanded, pointwise, single, unsqueezed, viewed
from compiler.frontends.extents import ONE, Extent
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import NUMBERS
from registry import Block, Value, ops


def sliced(x: Arranged, axis: int, start: int, stop: int, step: int = 1) -> Arranged:
    """Return the positions range(start, stop, step) along an axis of the model."""
    if x.held(axis) == ONE and x.shape[axis] != ONE:  # broadcast, so all positions are equal
        count = max(0, -(-(stop - start) // step))
        return expanded(x, (*x.shape[:axis], Extent(count), *x.shape[axis + 1 :]))
    x, [place] = single(x, [axis])
    if x.shape[axis].symbols:
        y = _rows(x.value, place, range(start, stop, step))
        return Arranged(y, x.axes, (*x.shape[:axis], Extent.of(y.shape[place]), *x.shape[axis + 1 :]))
    key: list[Any] = [slice(None)] * x.value.rank
    key[place] = slice(start, stop, step)
    y = x.value[tuple(key)]
    return Arranged(y, x.axes, (*x.shape[:axis], Extent.of(y.shape[place]), *x.shape[axis + 1 :]))


def _rows(value: Value, place: int, positions: range) -> Value:
    """Return elements along an axis of a symbol, whose extent a slice does not know; negative ones are from the end."""
    numbers = constants(value.block, positions)
    if positions.start < 0:
        ones = ops.full.on(value.block)(shape=(value.shape[place],), value=1, dtype="int64")
        numbers = numbers + ops.sum(ones)
    return ops.gather(value, numbers, axis=place)


def constants(block: Block, numbers: Sequence[int], dtype: Literal["int64", "bool"] = "int64") -> Value:
    """Return constant numbers, or truth values."""
    data = struct.pack(f"<{len(numbers)}{'?' if dtype == 'bool' else 'q'}", *numbers)
    return ops.constant.on(block)(value=pb.SmallTensor(dtype=NUMBERS[dtype], shape=(len(numbers),), data=data))


def sliced_to(x: Arranged, axis: int, extent: Extent, start: Extent | None = None) -> Arranged:
    """Return as many positions along an axis as an extent with symbols has, from `start`, or from the end less it.

    A run fails if the axis has fewer positions.
    """
    shape = (*x.shape[:axis], extent, *x.shape[axis + 1 :])
    if x.held(axis) == ONE and x.shape[axis] != ONE:
        return expanded(x, shape)
    x, [place] = single(x, [axis])
    numbers = positions(x.value.block, extent)
    if start is not None and start.number:
        first = number_of(x.value.block, start._replace(number=abs(start.number)), "int64")
        whole = number_of(x.value.block, x.shape[axis], "int64")
        numbers = numbers + first if start.number > 0 else numbers + (whole - first)
    return Arranged(ops.gather(x.value, numbers, axis=place), x.axes, shape)


def positions(block: Block, extent: Extent) -> Value:
    """Return the numbers from 0 of an extent, int64."""
    ones = ops.full.on(block)(shape=(extent.plain(),), value=1, dtype="int64")
    return ops.cumsum(ones, exclusive=True)


def number_of(block: Block, extent: Extent, dtype: str) -> Value:
    """Return an extent as a tensor of rank 0."""
    return ops.size.on(block)(shape=(extent.number, *extent.symbols), dtype=dtype)  # pyright: ignore[reportArgumentType]: a dtype


def from_front(indices: Arranged, extent: Extent) -> Arranged:
    """Return indices that may count from the end of an extent as indices that count from the front."""
    size = number_of(indices.value.block, extent, indices.dtype) if extent.symbols else extent.number

    def counted(v: Value) -> Value:
        return ops.where(v < 0, v + size, v)

    return pointwise(counted, indices)


def split(x: Arranged, sizes: Sequence[int], axis: int) -> list[Arranged]:
    """Return consecutive pieces along an axis of the model."""
    x, [place] = single(x, [axis])
    parts = [x.value] if len(sizes) == 1 else ops.split(x.value, sizes=tuple(sizes), axis=place)
    return [
        Arranged(y, x.axes, (*x.shape[:axis], Extent(n), *x.shape[axis + 1 :]))
        for y, n in zip(parts, sizes, strict=True)
    ]


def repeated(x: Arranged, counts: Sequence[Extent]) -> Arranged:
    """Return copies of x along its axes: a new axis of copies before each, broadcast and merged."""
    wide = x
    for axis, count in reversed([*enumerate(counts)]):
        if count != ONE:
            wide = unsqueezed(wide, axis)
            wide = expanded(wide, (*wide.shape[:axis], count, *wide.shape[axis + 1 :]))
    return viewed(wide, [count.times(extent) for count, extent in zip(counts, x.shape, strict=True)])


def pad(x: Arranged, widths: Sequence[tuple[int, int]], value: float) -> Arranged:
    """Return x with elements of `value` before and after each axis of the model; negative widths cut."""
    for axis, (before, after) in enumerate(widths):
        if before < 0 or after < 0:
            x = sliced(x, axis, max(0, -before), x.shape[axis].known() - max(0, -after))
    wide = [axis for axis, (before, after) in enumerate(widths) if before > 0 or after > 0]
    if not wide:
        return x
    x, places = single(x, wide)
    before, after = [0] * x.value.rank, [0] * x.value.rank
    for axis, place in zip(wide, places, strict=True):
        before[place], after[place] = (max(0, n) for n in widths[axis])
    y = ops.pad(x.value, before=tuple(before), after=tuple(after), value=value)
    shape = list(x.shape)
    for axis, place in zip(wide, places, strict=True):
        shape[axis] = Extent.of(y.shape[place])
    return Arranged(y, x.axes, tuple(shape))


def after_gather(x: Arranged, axis: int, place: int, rank: int) -> tuple[tuple[int, ...], ...]:
    """Return the axes of a gather along an axis, which is replaced by those of the indices."""

    def moved(number: int) -> int:
        return number if number < place else number + rank - 1

    made: list[tuple[int, ...]] = []
    for i, own in enumerate(x.axes):
        if i == axis:
            made.extend((place + k,) for k in range(rank))
        else:
            made.append(tuple(moved(number) for number in own))
    return tuple(made)

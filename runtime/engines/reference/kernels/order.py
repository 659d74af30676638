"""Sorting, indices of sorted elements, the largest elements, and unique values.

NumPy sorts in place, but returns indices only in new memory. So indices are sorted together with the elements: each
element and its index make a complex number. NumPy orders these by their real, then their imaginary part, NaN last. The
gradient of a sort does that twice, and takes over ten times as long as PyTorch's, which kept the indices.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS, INTEGERS
from runtime.engines.reference.kernels.index import check_range, count_up
from runtime.engines.reference.kernels.windows import BUFFER
from runtime.kernel import Array, kernel, require
from runtime.row_rules import along_other_axes

Pairs = np.ndarray[Any, np.dtype[np.complex128]]

LONGEST = 1 << 21
"""Upper bound on the length of an int64 axis: half of an element and its index share the 53 bits of a float64."""

HALF = 32
"""Bits of an int64 in either part of a complex number."""


def pair_scratch(x: TensorType, axis: int) -> list[TensorType]:
    """Return scratch for complex numbers, and for all indices along the axis."""
    lanes = lanes_of(x, axis)
    return [TensorType("float64", (*lanes, 2)), TensorType("float64", lanes[-1:])]


def sort_scratch(x: TensorType, axis: int, descending: bool) -> list[TensorType]:
    return [] if axis in (-1, x.rank - 1) and not descending else [TensorType(x.dtype, lanes_of(x, axis))]


@kernel(scratch=sort_scratch, in_place=[(0, 0)], rows=along_other_axes)
def sort(x: Array, *, axis: int, descending: bool, out: Array, scratch: list[Array] | tuple[Array, ...] = ()) -> None:
    for lanes in scratch:
        np.copyto(lanes, np.moveaxis(x, axis, -1))
        lanes.sort(axis=-1)
        np.copyto(np.moveaxis(out, axis, -1), lanes[..., ::-1] if descending else lanes)
        return
    np.copyto(out, x)
    out.sort(axis=-1)


@kernel(scratch=pair_scratch, rows=along_other_axes)
def argsort(x: Array, *, axis: int, descending: bool, out: Array, scratch: list[Array]) -> None:
    pairs = pairs_of(np.moveaxis(x, axis, -1), descending, scratch)
    pairs.sort(axis=-1)
    write_places(pairs[..., ::-1] if descending else pairs, x, axis, descending, np.moveaxis(out, axis, -1))


@kernel(scratch=pair_scratch, rows=along_other_axes)
def topk(x: Array, *, k: int, axis: int, largest: bool, out: list[Array], scratch: list[Array]) -> None:
    y, indices = (np.moveaxis(array, axis, -1) for array in out)
    pairs = pairs_of(np.moveaxis(x, axis, -1), largest, scratch)
    rest = pairs.shape[-1] - k
    if k and rest:
        pairs.partition(rest if largest else k - 1, axis=-1)
    chosen = pairs[..., rest:] if largest else pairs[..., :k]
    chosen.sort(axis=-1)
    chosen = chosen[..., ::-1] if largest else chosen
    write_elements(chosen, x, axis, y, indices)
    write_places(chosen, x, axis, largest, indices)


def count_unique_scratch(x: TensorType) -> list[TensorType]:
    return [TensorType(dtype, (prod(x.static_shape),)) for dtype in (x.dtype, "bool")]


@kernel(scratch=count_unique_scratch)
def count_unique(x: Array, *, out: Array, scratch: list[Array]) -> None:
    line, is_new = scratch
    np.copyto(line, x.reshape(-1))
    line.sort()
    is_new[:1] = True
    np.not_equal(line[1:], line[:-1], is_new[1:])
    count = np.count_nonzero(is_new)
    if line.dtype.kind == "f":
        np.isnan(line, is_new)
        count -= max(np.count_nonzero(is_new) - 1, 0)
    out.fill(count)


def bincount_scratch(indices: TensorType) -> list[TensorType]:
    return [TensorType("int64", (prod(indices.static_shape),))]


@kernel(scratch=bincount_scratch)
def bincount(indices: Array, *, depth: int, out: Array, scratch: list[Array]) -> None:
    [places] = scratch
    check_range(indices, depth)
    np.copyto(places, indices.reshape(-1))
    out.fill(0)
    np.add.at(out, places, 1)


def lanes_of(x: TensorType, axis: int) -> tuple[int, ...]:
    """Return the shape of x with that axis last; raise ProgramError if it cannot be sorted."""
    require(x.dtype in FLOATS | INTEGERS, f"x is {x.dtype}, which this operator does not take")
    require(-x.rank <= axis < x.rank, f"axis {axis} is out of range for {x}")
    shape = list(x.static_shape)
    extent = shape.pop(axis)
    require(x.dtype != "int64" or extent <= LONGEST, f"{x} has more than {LONGEST} elements along axis {axis}")
    return (*shape, extent)


def pairs_of(x: Array, from_end: bool, scratch: list[Array]) -> Pairs:
    """Return each element with its index along the last axis, counted from the end for the reverse order."""
    parts, places = scratch
    count_up(places, 1)
    if from_end:
        np.subtract(places.size - 1, places, places)
    element, place = parts[..., 0], parts[..., 1]
    with np.errstate():  # restores the buffer size as well
        np.setbufsize(BUFFER)
        if x.dtype == np.int64:
            np.right_shift(x, HALF, out=element)
            np.bitwise_and(x, (1 << HALF) - 1, out=place)
            np.multiply(place, places.size, place)
            np.add(place, places, place)
        else:
            np.copyto(element, x)
            np.copyto(place, places)
    return parts.view(np.complex128)[..., 0]


def write_elements(pairs: Pairs, x: Array, axis: int, y: Array, part: Array) -> None:
    """Write the elements of pairs; for int64 both halves, the lower of them through `part`."""
    with np.errstate():  # restores the buffer size as well
        np.setbufsize(BUFFER)
        np.copyto(y, pairs.real, casting="unsafe")
        if x.dtype == np.int64:
            np.left_shift(y, HALF, y)
            np.floor_divide(pairs.imag, x.shape[axis], out=pairs.real)
            np.copyto(part, pairs.real, casting="unsafe")
            np.add(y, part, y)


def write_places(pairs: Pairs, x: Array, axis: int, from_end: bool, out: Array) -> None:
    """Write the indices of pairs."""
    size = x.shape[axis]
    with np.errstate():  # restores the buffer size as well
        np.setbufsize(BUFFER)
        np.copyto(out, pairs.imag, casting="unsafe")
        if x.dtype == np.int64:
            np.remainder(out, size, out)
        if from_end:
            np.subtract(size - 1, out, out)

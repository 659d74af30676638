"""Kernels that rearrange elements."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import EllipsisType
from typing import Any

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import REALS, holds
from prograd_proto.tensor_types import Shape
from runtime.engines.reference.kernels.copy import fill
from runtime.kernel import Array, Types, kernel, require, types
from runtime.row_rules import Operands, along_other_axes, each_operand, has_rows

Ints = tuple[int, ...]


def reshape_rule(x: TensorType, *, shape: Shape) -> Types:
    y = TensorType(x.dtype, shape)
    require(min(y.static_shape, default=0) >= 0, f"an extent of {y} is negative")
    require(prod(x.static_shape) == prod(y.static_shape), f"{x} and {y} differ in their number of elements")
    return types(y)


def reshape_rows(operands: Operands, result: tuple[int, ...], attributes: Mapping[str, Any]) -> bool:
    """Return True if axis 0 stays, so that a row keeps its elements."""
    [x] = operands
    return x is not None and x.has_rows and result[:1] == x.shape[:1] and prod(result[1:]) == prod(x.shape[1:])


@kernel(reshape_rule, view=True, halves=True, rows=reshape_rows)
def reshape(x: Array, *, shape: Ints, out: Array) -> None:
    np.copyto(out, x.reshape(shape))


def transpose_rule(x: TensorType, *, axes: tuple[int, ...]) -> Types:
    require(sorted(axes) == list(range(x.rank)), f"axes {axes} do not name each axis of {x} once")
    return types(TensorType(x.dtype, tuple(x.shape[axis] for axis in axes)))


def transpose_rows(operands: Operands, result: tuple[int, ...], attributes: Mapping[str, Any]) -> bool:
    return has_rows(operands[0]) and attributes["axes"][0] == 0


@kernel(transpose_rule, halves=True, rows=transpose_rows)
def transpose(x: Array, *, axes: Ints, out: Array) -> None:
    np.copyto(out, x.transpose(axes))


def slice_rule(
    x: TensorType,
    *,
    axes: tuple[int, ...],
    starts: tuple[int, ...],
    stops: tuple[int, ...],
    strides: tuple[int, ...],
) -> Types:
    return types(TensorType(x.dtype, sliced(x, axes, starts, stops, strides)))


@kernel(slice_rule, halves=True, rows=along_other_axes)
def slice_(x: Array, *, axes: Ints, starts: Ints, stops: Ints, strides: Ints, out: Array) -> None:
    np.copyto(out, x[window(x, axes, starts, stops, strides)])


def unslice_rule(
    x: TensorType,
    *,
    shape: Shape,
    axes: tuple[int, ...],
    starts: tuple[int, ...],
    stops: tuple[int, ...],
    strides: tuple[int, ...],
) -> Types:
    y = TensorType(x.dtype, shape)
    taken = sliced(y, axes, starts, stops, strides)
    require(x.shape == taken, f"the slice of {y} has the shape {list(taken)}, x is {x}")
    return types(y)


@kernel(unslice_rule, halves=True)
def unslice(x: Array, *, shape: Ints, axes: Ints, starts: Ints, stops: Ints, strides: Ints, out: Array) -> None:
    out.fill(0)
    np.copyto(out[window(out, axes, starts, stops, strides)], x)


def pad_rule(x: TensorType, *, before: tuple[int, ...], after: tuple[int, ...], value: float) -> Types:
    require(len(before) == len(after) == x.rank, f"before and after do not have the rank of {x}")
    require(min((*before, *after), default=0) >= 0, "a width is negative")
    require(x.dtype in REALS or value.is_integer(), f"{value} is not a whole number, as {x.dtype} needs")
    require(holds(x.dtype, value), f"its value {value:g} is no {x.dtype}")
    widths = zip(x.static_shape, before, after, strict=True)
    return types(TensorType(x.dtype, tuple(i + extent + j for extent, i, j in widths)))


def pad_rows(operands: Operands, result: tuple[int, ...], attributes: Mapping[str, Any]) -> bool:
    return has_rows(operands[0]) and attributes["before"][0] == attributes["after"][0] == 0


@kernel(pad_rule, halves=True, rows=pad_rows)
def pad(x: Array, *, before: Ints, after: Ints, value: float, out: Array) -> None:
    fill(out, value)
    inner = tuple(slice(i, i + extent) for extent, i in zip(x.shape, before, strict=True))
    np.copyto(out[(*inner, ...)], x)  # the ellipsis makes it an array for rank 0 too


def split_rule(x: TensorType, *, sizes: tuple[int, ...], axis: int) -> Types:
    require(-x.rank <= axis < x.rank, f"axis {axis} is out of range for {x}")
    axis %= x.rank
    require(len(sizes) > 0 and min(sizes) >= 0, f"sizes {sizes} are none or negative")
    require(sum(sizes) == x.shape[axis], f"sizes {sizes} do not fill axis {axis} of {x}")
    return types(*(TensorType(x.dtype, (*x.shape[:axis], n, *x.shape[axis + 1 :])) for n in sizes))


@kernel(split_rule, halves=True, variadic_outputs=True, rows=along_other_axes)
def split(x: Array, *, sizes: Ints, axis: int, out: list[Array]) -> None:
    start = 0
    turned = x.swapaxes(0, axis)
    for size, piece in zip(sizes, out, strict=True):
        np.copyto(piece.swapaxes(0, axis), turned[start : start + size])
        start += size


def concat_rule(*xs: TensorType, axis: int) -> Types:
    require(len(xs) > 0, "there is nothing to join")
    first = xs[0]
    require(-first.rank <= axis < first.rank, f"axis {axis} is out of range for {first}")
    axis %= first.rank
    for x in xs:
        expected = x._replace(shape=(*x.shape[:axis], first.shape[axis], *x.shape[axis + 1 :]))
        require(x.rank == first.rank and expected == first, f"{x} and {first} differ beside axis {axis}")
    total = sum(x.static_shape[axis] for x in xs)
    return types(first._replace(shape=(*first.shape[:axis], total, *first.shape[axis + 1 :])))


def concat_rows(operands: Operands, result: tuple[int, ...], attributes: Mapping[str, Any]) -> bool:
    return attributes["axis"] % len(result) != 0 and each_operand(operands, result, attributes)


@kernel(concat_rule, halves=True, rows=concat_rows)
def concat(*xs: Array, axis: int, out: Array) -> None:
    np.concatenate(xs, axis, out)


def sliced(x: TensorType, axes: Ints, starts: Ints, stops: Ints, strides: Ints) -> Shape:
    """Return the shape of a slice; raise ProgramError where it would leave x."""
    require(len(axes) == len(starts) == len(stops) == len(strides), "the lists of a slice differ in length")
    require(len(set(axes)) == len(axes), f"axes {axes} name an axis twice")
    shape = list(x.static_shape)
    for axis, start, stop, stride in zip(axes, starts, stops, strides, strict=True):
        require(0 <= axis < x.rank and stride != 0, f"axis {axis} with stride {stride} does not fit {x}")
        places = range(start, stop, stride)
        ends = (places[0], places[-1]) if places else ()
        require(all(0 <= end < shape[axis] for end in ends), f"{start}:{stop}:{stride} leaves axis {axis} of {x}")
        shape[axis] = len(places)
    return tuple(shape)


def window(x: Array, axes: Ints, starts: Ints, stops: Ints, strides: Ints) -> tuple[slice | EllipsisType, ...]:
    """Return the index of a slice that lies within x, which gives an array, also of rank 0."""
    index = [slice(None)] * x.ndim
    for axis, start, stop, stride in zip(axes, starts, stops, strides, strict=True):
        empty = not range(start, stop, stride)
        index[axis] = slice(0, 0) if empty else slice(start, None if stop < 0 else stop, stride)
    return *index, ...

"""Sums, products, means, extremes, and repetition along axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS
from prograd_proto.tensor_types import Shape
from runtime.engines.reference.kernels.pointwise import broadcast
from runtime.engines.reference.kernels.sums import add_along, add_rows_by_product
from runtime.kernel import Array, Types, kernel, require, types
from runtime.row_rules import along_other_axes, pointwise


def sum_rule(x: TensorType, *, axes: tuple[int, ...], keepdims: bool) -> Types:
    y = TensorType(x.dtype if x.dtype in FLOATS else "int64", reduced(x, axes, keepdims))
    return types(y, scratch=row_scratch(x, axes))


@kernel(sum_rule, rows=along_other_axes)
def sum_(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array, scratch: Sequence[Array] = ()) -> None:
    if scratch:
        ones, sums = scratch
        add_runs(x, axes, keepdims, ones, sums, out)
    elif x.dtype == out.dtype and x.dtype.kind == "f":
        add_along(x, axes, out, keepdims=keepdims)
    else:
        np.add.reduce(x, axis=axes or None, dtype=out.dtype, out=out, keepdims=keepdims)


def mean_rule(x: TensorType, *, axes: tuple[int, ...], keepdims: bool) -> Types:
    require(x.dtype in FLOATS, f"x is {x.dtype}, which this operator does not take")
    return types(TensorType(x.dtype, reduced(x, axes, keepdims)), scratch=row_scratch(x, axes))


@kernel(mean_rule, rows=along_other_axes)
def mean(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array, scratch: Sequence[Array] = ()) -> None:
    sum_(x, axes=axes, keepdims=keepdims, out=out, scratch=scratch)
    np.divide(out, prod(x.shape[axis] for axis in axes) if axes else x.size, out)


def max_rule(x: TensorType, *, axes: tuple[int, ...], keepdims: bool) -> Types:
    shape = reduced(x, axes, keepdims)
    gone = axes or range(x.rank)
    require(0 not in [x.static_shape[axis] for axis in gone], f"{x} has no elements along {tuple(gone)}")
    return types(TensorType(x.dtype, shape))


@kernel(max_rule, rows=along_other_axes)
def max_(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array) -> None:
    np.maximum.reduce(x, axis=axes or None, out=out, keepdims=keepdims)


@kernel(max_rule, rows=along_other_axes)
def min_(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array) -> None:
    np.minimum.reduce(x, axis=axes or None, out=out, keepdims=keepdims)


def prod_rule(x: TensorType, *, axes: tuple[int, ...], keepdims: bool) -> Types:
    return types(TensorType(x.dtype if x.dtype in FLOATS else "int64", reduced(x, axes, keepdims)))


@kernel(prod_rule, rows=along_other_axes)
def prod_(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array) -> None:
    np.multiply.reduce(x, axis=axes or None, dtype=out.dtype, out=out, keepdims=keepdims)


def any_rule(x: TensorType, *, axes: tuple[int, ...], keepdims: bool) -> Types:
    require(x.dtype == "bool", f"x is {x.dtype}, not bool")
    return types(TensorType("bool", reduced(x, axes, keepdims)))


@kernel(any_rule, rows=along_other_axes)
def any_(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array) -> None:
    np.logical_or.reduce(x, axis=axes or None, out=out, keepdims=keepdims)


@kernel(any_rule, rows=along_other_axes)
def all_(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array) -> None:
    np.logical_and.reduce(x, axis=axes or None, out=out, keepdims=keepdims)


def argmax_rule(x: TensorType, *, axis: int) -> Types:
    require(-x.rank <= axis < x.rank, f"axis {axis} is out of range for {x}")
    axis %= x.rank
    require(x.shape[axis] != 0, f"{x} has no elements along axis {axis}")
    kept = x.shape[:axis] + x.shape[axis + 1 :]
    last_is_axis = TensorType(x.dtype, (*kept, x.shape[axis]))
    return types(TensorType("int64", kept), scratch=[] if axis == x.rank - 1 else [last_is_axis])


@kernel(argmax_rule, rows=along_other_axes)
def argmax(x: Array, *, axis: int, out: Array, scratch: tuple[Array, ...] | list[Array] = ()) -> None:
    for turned in scratch:  # NumPy would make this copy itself
        np.copyto(turned, np.moveaxis(x, axis, -1))
        x = turned
    np.argmax(x, -1, out)


@kernel(argmax_rule, rows=along_other_axes)
def argmin(x: Array, *, axis: int, out: Array, scratch: tuple[Array, ...] | list[Array] = ()) -> None:
    for turned in scratch:  # NumPy would make this copy itself
        np.copyto(turned, np.moveaxis(x, axis, -1))
        x = turned
    np.argmin(x, -1, out)


def broadcast_to_rule(x: TensorType, *, shape: Shape) -> Types:
    target = TensorType(x.dtype, shape)
    require(broadcast(x, target) == shape, f"{x} does not broadcast to {target}")
    return types(target)


@kernel(broadcast_to_rule, halves=True, rows=pointwise)
def broadcast_to(x: Array, *, shape: tuple[int, ...], out: Array) -> None:
    np.copyto(out, x)


def reduced(x: TensorType, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """Return the shape of x after a reduction; an empty tuple stands for all axes."""
    require(all(-x.rank <= axis < x.rank for axis in axes), f"axes {axes} are out of range for {x}")
    gone = {axis % x.rank for axis in axes} if axes else set(range(x.rank))
    require(len(gone) == len(axes or gone), f"axes {axes} name an axis twice")
    if keepdims:
        return tuple(1 if axis in gone else extent for axis, extent in enumerate(x.shape))
    return tuple(extent for axis, extent in enumerate(x.shape) if axis not in gone)


SHORT = 256
"""Number of elements of a row below which NumPy is slow at adding rows."""


def row_scratch(x: TensorType, axes: tuple[int, ...]) -> list[TensorType]:
    """Return scratch for ones and sums of rows, if floats are added along axes that precede a short contiguous row."""
    first, stop = run_of(x.rank, axes)
    if x.dtype not in FLOATS or first >= stop or prod(x.static_shape[stop:]) >= SHORT:
        return []
    before, rows, row = (prod(x.static_shape[part]) for part in (slice(first), slice(first, stop), slice(stop, None)))
    return [TensorType(x.dtype, shape) for shape in ((1, rows), (before, 1, row))]


def add_runs(x: Array, axes: tuple[int, ...], keepdims: bool, ones: Array, sums: Array, out: Array) -> None:
    """Sum along axes: rows by a product with ones, where BLAS is far faster than NumPy, then the remaining axes."""
    first, stop = run_of(x.ndim, axes)
    ones.fill(1)
    add_rows_by_product(ones, x.reshape(len(sums), ones.size, sums.shape[2]), sums)
    left = tuple(axis % x.ndim for axis in axes if not first <= axis % x.ndim < stop)
    shape = (*x.shape[:first], *(1,) * (stop - first), *x.shape[stop:])
    wide = out if keepdims else np.expand_dims(out, tuple(axis % x.ndim for axis in axes))
    if left:
        add_along(sums.reshape(shape), left, wide, keepdims=True)
    else:
        np.add.reduce(sums.reshape(shape), axis=left, out=wide, keepdims=True)


def run_of(rank: int, axes: tuple[int, ...]) -> tuple[int, int]:
    """Return the first run of neighbouring axes, without axis 0, which is added last; empty if it is at the end."""
    gone = {axis % rank for axis in axes} - {0}
    first = stop = min(gone, default=rank)
    while stop in gone:
        stop += 1
    return (first, stop) if stop < rank else (0, 0)

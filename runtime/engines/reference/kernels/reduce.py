"""Sums, products, means, extremes, and repetition along axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS
from runtime.engines.reference.kernels.sums import add_along, add_rows_by_product
from runtime.kernel import Array, kernel
from runtime.row_rules import along_other_axes, pointwise


def row_scratch(x: TensorType, axes: tuple[int, ...]) -> list[TensorType]:
    """Return scratch for ones and sums of rows, if floats are added along axes that precede a short contiguous row."""
    first, stop = run_of(x.rank, axes)
    if x.dtype not in FLOATS or first >= stop or prod(x.static_shape[stop:]) >= SHORT:
        return []
    before, rows, row = (prod(x.static_shape[part]) for part in (slice(first), slice(first, stop), slice(stop, None)))
    return [TensorType(x.dtype, shape) for shape in ((1, rows), (before, 1, row))]


@kernel(scratch=row_scratch, rows=along_other_axes)
def sum_(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array, scratch: Sequence[Array] = ()) -> None:
    if scratch:
        ones, sums = scratch
        add_runs(x, axes, keepdims, ones, sums, out)
    elif x.dtype == out.dtype and x.dtype.kind == "f":
        add_along(x, axes, out, keepdims=keepdims)
    else:
        np.add.reduce(x, axis=axes or None, dtype=out.dtype, out=out, keepdims=keepdims)


@kernel(scratch=row_scratch, rows=along_other_axes)
def mean(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array, scratch: Sequence[Array] = ()) -> None:
    sum_(x, axes=axes, keepdims=keepdims, out=out, scratch=scratch)
    np.divide(out, prod(x.shape[axis] for axis in axes) if axes else x.size, out)


@kernel(rows=along_other_axes)
def max_(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array) -> None:
    np.maximum.reduce(x, axis=axes or None, out=out, keepdims=keepdims)


@kernel(rows=along_other_axes)
def min_(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array) -> None:
    np.minimum.reduce(x, axis=axes or None, out=out, keepdims=keepdims)


@kernel(rows=along_other_axes)
def prod_(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array) -> None:
    np.multiply.reduce(x, axis=axes or None, dtype=out.dtype, out=out, keepdims=keepdims)


@kernel(rows=along_other_axes)
def any_(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array) -> None:
    np.logical_or.reduce(x, axis=axes or None, out=out, keepdims=keepdims)


@kernel(rows=along_other_axes)
def all_(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array) -> None:
    np.logical_and.reduce(x, axis=axes or None, out=out, keepdims=keepdims)


def best_scratch(x: TensorType, axis: int) -> list[TensorType]:
    axis %= x.rank
    last = TensorType(x.dtype, (*x.shape[:axis], *x.shape[axis + 1 :], x.shape[axis]))
    return [] if axis == x.rank - 1 else [last]


@kernel(scratch=best_scratch, rows=along_other_axes)
def argmax(x: Array, *, axis: int, out: Array, scratch: tuple[Array, ...] | list[Array] = ()) -> None:
    for turned in scratch:  # NumPy would make this copy itself
        np.copyto(turned, np.moveaxis(x, axis, -1))
        x = turned
    np.argmax(x, -1, out)


@kernel(scratch=best_scratch, rows=along_other_axes)
def argmin(x: Array, *, axis: int, out: Array, scratch: tuple[Array, ...] | list[Array] = ()) -> None:
    for turned in scratch:  # NumPy would make this copy itself
        np.copyto(turned, np.moveaxis(x, axis, -1))
        x = turned
    np.argmin(x, -1, out)


@kernel(rows=pointwise)
def broadcast_to(x: Array, *, shape: tuple[int, ...], out: Array) -> None:
    np.copyto(out, x)


SHORT = 256
"""Number of elements of a row below which NumPy is slow at adding rows."""


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

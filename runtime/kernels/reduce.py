"""Sums, means, maxima, and repetition along axes."""

from __future__ import annotations

from math import prod

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS
from prograd_proto.tensor_types import Shape
from runtime.kernel import Array, Types, kernel, require, types
from runtime.kernels.pointwise import broadcast


def sum_rule(x: TensorType, *, axes: tuple[int, ...], keepdims: bool) -> Types:
    return types(TensorType(x.dtype if x.dtype in FLOATS else "int64", reduced(x, axes, keepdims)))


@kernel(sum_rule)
def sum_(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array) -> None:
    np.add.reduce(x, axis=axes or None, dtype=out.dtype, out=out, keepdims=keepdims)


def mean_rule(x: TensorType, *, axes: tuple[int, ...], keepdims: bool) -> Types:
    require(x.dtype in FLOATS, f"x is {x.dtype}, which this operator does not take")
    return types(TensorType(x.dtype, reduced(x, axes, keepdims)))


@kernel(mean_rule)
def mean(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array) -> None:
    np.add.reduce(x, axis=axes or None, out=out, keepdims=keepdims)
    np.divide(out, prod(x.shape[axis] for axis in axes) if axes else x.size, out)


def max_rule(x: TensorType, *, axes: tuple[int, ...], keepdims: bool) -> Types:
    shape = reduced(x, axes, keepdims)
    gone = axes or range(x.rank)
    require(0 not in [x.static_shape[axis] for axis in gone], f"{x} has no elements along {tuple(gone)}")
    return types(TensorType(x.dtype, shape))


@kernel(max_rule)
def max_(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array) -> None:
    np.maximum.reduce(x, axis=axes or None, out=out, keepdims=keepdims)


def argmax_rule(x: TensorType, *, axis: int) -> Types:
    require(-x.rank <= axis < x.rank, f"axis {axis} is out of range for {x}")
    axis %= x.rank
    require(x.shape[axis] != 0, f"{x} has no elements along axis {axis}")
    kept = x.shape[:axis] + x.shape[axis + 1 :]
    last_is_axis = TensorType(x.dtype, (*kept, x.shape[axis]))
    return types(TensorType("int64", kept), scratch=[] if axis == x.rank - 1 else [last_is_axis])


@kernel(argmax_rule)
def argmax(x: Array, *, axis: int, out: Array, scratch: tuple[Array, ...] | list[Array] = ()) -> None:
    for turned in scratch:  # NumPy would make this copy itself
        np.copyto(turned, np.moveaxis(x, axis, -1))
        x = turned
    np.argmax(x, -1, out)


def broadcast_to_rule(x: TensorType, *, shape: Shape) -> Types:
    target = TensorType(x.dtype, shape)
    require(broadcast(x, target) == shape, f"{x} does not broadcast to {target}")
    return types(target)


@kernel(broadcast_to_rule)
def broadcast_to(x: Array, *, shape: tuple[int, ...], out: Array) -> None:
    np.copyto(out, x)


def reduced(x: TensorType, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """The shape that is left of x; an empty tuple stands for all axes."""
    require(all(-x.rank <= axis < x.rank for axis in axes), f"axes {axes} are out of range for {x}")
    gone = {axis % x.rank for axis in axes} if axes else set(range(x.rank))
    require(len(gone) == len(axes or gone), f"axes {axes} name an axis twice")
    if keepdims:
        return tuple(1 if axis in gone else extent for axis, extent in enumerate(x.shape))
    return tuple(extent for axis, extent in enumerate(x.shape) if axis not in gone)

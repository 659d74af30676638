"""Sums, products, means, extremes, and repetition along axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS
from prograd_proto.tensor_types import Shape
from runtime.kernel import Array, Types, kernel, require, types
from runtime.kernels.pointwise import broadcast


def sum_rule(x: TensorType, *, axes: tuple[int, ...], keepdims: bool) -> Types:
    y = TensorType(x.dtype if x.dtype in FLOATS else "int64", reduced(x, axes, keepdims))
    return types(y, scratch=image_scratch(x, axes))


@kernel(sum_rule)
def sum_(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array, scratch: Sequence[Array] = ()) -> None:
    if scratch:
        ones, sums = scratch
        add_images(x, ones, sums, out)
    else:
        np.add.reduce(x, axis=axes or None, dtype=out.dtype, out=out, keepdims=keepdims)


def mean_rule(x: TensorType, *, axes: tuple[int, ...], keepdims: bool) -> Types:
    require(x.dtype in FLOATS, f"x is {x.dtype}, which this operator does not take")
    return types(TensorType(x.dtype, reduced(x, axes, keepdims)), scratch=image_scratch(x, axes))


@kernel(mean_rule)
def mean(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array, scratch: Sequence[Array] = ()) -> None:
    sum_(x, axes=axes, keepdims=keepdims, out=out, scratch=scratch)
    np.divide(out, prod(x.shape[axis] for axis in axes) if axes else x.size, out)


def max_rule(x: TensorType, *, axes: tuple[int, ...], keepdims: bool) -> Types:
    shape = reduced(x, axes, keepdims)
    gone = axes or range(x.rank)
    require(0 not in [x.static_shape[axis] for axis in gone], f"{x} has no elements along {tuple(gone)}")
    return types(TensorType(x.dtype, shape))


@kernel(max_rule)
def max_(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array) -> None:
    np.maximum.reduce(x, axis=axes or None, out=out, keepdims=keepdims)


@kernel(max_rule)
def min_(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array) -> None:
    np.minimum.reduce(x, axis=axes or None, out=out, keepdims=keepdims)


def prod_rule(x: TensorType, *, axes: tuple[int, ...], keepdims: bool) -> Types:
    return types(TensorType(x.dtype if x.dtype in FLOATS else "int64", reduced(x, axes, keepdims)))


@kernel(prod_rule)
def prod_(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array) -> None:
    np.multiply.reduce(x, axis=axes or None, dtype=out.dtype, out=out, keepdims=keepdims)


def any_rule(x: TensorType, *, axes: tuple[int, ...], keepdims: bool) -> Types:
    require(x.dtype == "bool", f"x is {x.dtype}, not bool")
    return types(TensorType("bool", reduced(x, axes, keepdims)))


@kernel(any_rule)
def any_(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array) -> None:
    np.logical_or.reduce(x, axis=axes or None, out=out, keepdims=keepdims)


@kernel(any_rule)
def all_(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array) -> None:
    np.logical_and.reduce(x, axis=axes or None, out=out, keepdims=keepdims)


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


@kernel(argmax_rule)
def argmin(x: Array, *, axis: int, out: Array, scratch: tuple[Array, ...] | list[Array] = ()) -> None:
    for turned in scratch:  # NumPy would make this copy itself
        np.copyto(turned, np.moveaxis(x, axis, -1))
        x = turned
    np.argmin(x, -1, out)


def broadcast_to_rule(x: TensorType, *, shape: Shape) -> Types:
    target = TensorType(x.dtype, shape)
    require(broadcast(x, target) == shape, f"{x} does not broadcast to {target}")
    return types(target)


@kernel(broadcast_to_rule, halves=True)
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


def image_scratch(x: TensorType, axes: tuple[int, ...]) -> list[TensorType]:
    """Ones and the sums of each image, if floats are added along two or more first axes and the last ones stay."""
    count = len(axes)
    if x.dtype not in FLOATS or not 2 <= count < x.rank or {axis % x.rank for axis in axes} != set(range(count)):
        return []
    images, *rest = x.static_shape
    shapes = (1, prod(rest[: count - 1])), (images, 1, prod(rest[count - 1 :]))
    return [TensorType(x.dtype, shape) for shape in shapes]


def add_images(x: Array, ones: Array, sums: Array, out: Array) -> None:
    """The sum along first axes: rows of images by a product with ones, where BLAS is far faster than NumPy."""
    ones.fill(1)
    np.matmul(ones, x.reshape(len(sums), ones.size, sums.shape[2]), sums)
    np.add.reduce(sums[:, 0], axis=0, out=out.reshape(-1))

"""Reductions, broadcasting, running sums, and orders along axes."""

from __future__ import annotations

from math import inf

from prograd_proto import dtypes
from prograd_proto.errors import require
from prograd_proto.result_types.rule import rule, rule_of, rule_with_halves
from prograd_proto.result_types.shapes import (
    broadcast_shapes,
    normal_axes,
    normal_axis,
    require_dtype,
    require_float,
    show_shape,
    size_known,
)
from prograd_proto.tensor_types import Shape, TensorType

NUMERIC = dtypes.FLOATS | dtypes.INTEGERS
LONGEST = 1 << 21
"""Upper bound on the extent of an int64 axis to sort: position and value share the digits of two float64."""


@rule_of("sum", "prod")
def sum_or_product(x: TensorType, *, axes: tuple[int, ...], keepdims: bool) -> TensorType:
    dtype = x.dtype if x.dtype in dtypes.FLOATS else "int64"
    return TensorType(dtype, reduced(x.shape, axes, keepdims))


@rule_of("mean", "logsumexp")
def mean(x: TensorType, *, axes: tuple[int, ...], keepdims: bool) -> TensorType:
    require_float(x)
    return TensorType(x.dtype, reduced(x.shape, axes, keepdims))


@rule_of("any", "all")
def any_or_all(x: TensorType, *, axes: tuple[int, ...], keepdims: bool) -> TensorType:
    require_dtype(x, ("bool",))
    return TensorType("bool", reduced(x.shape, axes, keepdims))


@rule_with_halves
def broadcast_to(x: TensorType, *, shape: Shape) -> TensorType:
    require(
        broadcast_shapes(x.shape, shape) == shape,
        f"{show_shape(x.shape)} does not broadcast to {show_shape(shape)}",
    )
    return TensorType(x.dtype, shape)


@rule_of("variance", "standard_deviation")
def spread(x: TensorType, *, axes: tuple[int, ...], correction: float, keepdims: bool) -> TensorType:
    require_float(x)
    return TensorType(x.dtype, reduced(x.shape, axes, keepdims))


@rule
def norm(x: TensorType, *, ord: float, axes: tuple[int, ...], keepdims: bool) -> TensorType:
    require_float(x)
    require(ord == ord, "ord is NaN")
    for each in normal_axes(axes, x.rank):
        some = ord not in (inf, -inf) or x.shape[each] != 0
        require(some, f"axis {each} has no elements and so no norm of order {ord}")
    return TensorType(x.dtype, reduced(x.shape, axes, keepdims))


@rule_of("cumsum", "cumprod")
def running(x: TensorType, *, axis: int, exclusive: bool, reverse: bool) -> TensorType:
    normal_axis(axis, x.rank)
    return TensorType(x.dtype if x.dtype in dtypes.FLOATS else "int64", x.shape)


@rule
def linear_scan(a: TensorType, b: TensorType, *, axis: int, reverse: bool) -> TensorType:
    require_float(a)
    require(a == b, f"a is {a}, b is {b}")
    size_known(a.shape[normal_axis(axis, a.rank)], "the extent of a scanned axis")
    return a


@rule
def sort(x: TensorType, *, axis: int, descending: bool) -> TensorType:
    _orderable(x, axis)
    return x


@rule
def argsort(x: TensorType, *, axis: int, descending: bool) -> TensorType:
    _orderable(x, axis)
    return TensorType("int64", x.shape)


@rule
def topk(x: TensorType, *, k: int, axis: int, largest: bool) -> tuple[TensorType, TensorType]:
    axis = _orderable(x, axis)
    extent = size_known(x.shape[axis], "the extent of an axis to choose from")
    require(0 <= k <= extent, f"k is {k}, axis {axis} has {extent} elements")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return TensorType(x.dtype, shape), TensorType("int64", shape)


@rule
def count_unique(x: TensorType) -> TensorType:
    require_dtype(x, NUMERIC)
    return TensorType("int64", ())


@rule
def bincount(indices: TensorType, *, depth: int) -> TensorType:
    require_dtype(indices, ("int32", "int64"))
    require(depth > 0, f"the depth {depth} is not positive")
    return TensorType("int64", (depth,))


def of_extreme(name: str, what: str) -> None:
    """Enter the rules of an extreme along axes, and of its place along one."""

    def present(x: TensorType, axes: tuple[int, ...]) -> None:
        for axis in axes:
            require(x.shape[axis] != 0, f"axis {axis} has no elements and so no {what}")

    @rule_of(name)
    def number(x: TensorType, *, axes: tuple[int, ...], keepdims: bool) -> TensorType:
        present(x, normal_axes(axes, x.rank))
        return TensorType(x.dtype, reduced(x.shape, axes, keepdims))

    @rule_of(f"arg{name}")
    def place(x: TensorType, *, axis: int) -> TensorType:
        axis = normal_axis(axis, x.rank)
        present(x, (axis,))
        return TensorType("int64", (*x.shape[:axis], *x.shape[axis + 1 :]))


of_extreme("max", "maximum")
of_extreme("min", "minimum")


def reduced(shape: Shape, axes: int | tuple[int, ...], keepdims: bool) -> Shape:
    """Return the shape of a reduction along `axes`; an empty tuple stands for all axes."""
    normal = normal_axes(axes, len(shape))
    if keepdims:
        return tuple(1 if axis in normal else extent for axis, extent in enumerate(shape))
    return tuple(extent for axis, extent in enumerate(shape) if axis not in normal)


def _orderable(x: TensorType, axis: int) -> int:
    require_dtype(x, NUMERIC)
    axis = normal_axis(axis, x.rank)
    extent = x.shape[axis]
    fits = x.dtype != "int64" or isinstance(extent, str) or extent <= LONGEST
    require(fits, f"axis {axis} has {extent} elements, of int64 at most {LONGEST}; cast to float64 if that is exact")
    return axis

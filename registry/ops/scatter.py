"""Indexing by tuples of numbers that are data: gather_nd, scatter_nd, and functions composed of them.

`indices` are int32 or int64. Their last axis has one number for each of the axes of x that follow the first
`batch_axes`, which x and `indices` share. Each such row names a part of x, a single element if it has a number for
every axis. Numbers count from 0; a negative or too large one stops the run.
"""

from __future__ import annotations

from typing import Literal

from prograd_proto import TensorType
from prograd_proto.result_types.shapes import normal_axis
from prograd_proto.tensor_types import Shape
from registry.errors import require
from registry.op import op
from registry.ops.copy import cast
from registry.ops.fill import full_like
from registry.ops.index import scatter_add
from registry.ops.pointwise import equal, greater, where
from registry.ops.reduce import broadcast_to
from registry.ops.shape import reshape, transpose
from registry.spelled import spelled
from registry.traits import stops
from registry.value import Value

Reduction = Literal["set", "add", "max", "min", "mul"]


@stops
@op
def gather_nd(x: Value, indices: Value, *, batch_axes: int = 0) -> TensorType:
    """Return the parts of x that the rows of `indices` name, in the order of the rows."""
    ...


@gather_nd.gradient
def gather_nd_gradient(x: Value, indices: Value, dy: Value, *, batch_axes: int) -> tuple[Value, None]:
    return scatter_nd(full_like(x, 0.0), indices, dy, batch_axes=batch_axes, reduction="add"), None


@stops
@op
def scatter_nd(x: Value, indices: Value, updates: Value, *, batch_axes: int = 0, reduction: str = "set") -> TensorType:
    """Return x with the parts that the rows of `indices` name combined with `updates`, in their order.

    `updates` has the type of gather_nd(x, indices). The reduction "set" replaces a part, and the last of several
    updates wins. "add" adds to it, "mul" multiplies it. "max" and "min" take the greater or lesser, and NaN wins. bool
    allows "set" only. Only the updates that take effect get a gradient; equal maxima or minima share it evenly. The
    gradient of "mul" is exact for updates of 0, too; its own gradient takes these as constants.
    """
    ...


@scatter_nd.gradient
def scatter_nd_gradient(
    x: Value, indices: Value, updates: Value, y: Value, dy: Value, *, batch_axes: int, reduction: str
) -> tuple[Value, None, Value]:
    if reduction == "add":
        return dy, None, gather_nd(dy, indices, batch_axes=batch_axes)
    if reduction == "set":
        cut = scatter_nd(dy, indices, full_like(updates, 0.0), batch_axes=batch_axes)
        last = is_last_index(indices, shape=x.shape, batch_axes=batch_axes)
        last = reshape(last, shape=(*last.shape, *(1,) * (updates.rank - last.rank)))
        return cut, None, where(last, gather_nd(dy, indices, batch_axes=batch_axes), 0.0)
    if reduction == "mul":
        return _factor_gradients(x, indices, updates, dy, batch_axes)
    from_x = cast(equal(x, y), dtype=x.dtype)
    from_updates = cast(equal(updates, gather_nd(y, indices, batch_axes=batch_axes)), dtype=x.dtype)
    count = scatter_nd(from_x, indices, from_updates, batch_axes=batch_axes, reduction="add")
    share = dy / count
    return from_x * share, None, from_updates * gather_nd(share, indices, batch_axes=batch_axes)


def _factor_gradients(
    x: Value, indices: Value, updates: Value, dy: Value, batch_axes: int
) -> tuple[Value, None, Value]:
    """Return the gradients of products.

    Dy times all other factors, from the product of nonzero factors and the count of zeros.
    """
    ones = full_like(x, 1.0)
    is_zero = equal(updates, 0.0)
    factors = where(is_zero, 1.0, updates)
    whole = scatter_nd(ones, indices, factors, batch_axes=batch_axes, reduction="mul")
    zeros = scatter_nd(full_like(x, 0.0), indices, cast(is_zero, dtype=x.dtype), batch_axes=batch_axes, reduction="add")
    here, count = (gather_nd(v, indices, batch_axes=batch_axes) for v in (x * dy * whole, zeros))
    others = count - cast(is_zero, dtype=x.dtype)
    return where(greater(zeros, 0.0), 0.0, dy * whole), None, where(greater(others, 0.0), 0.0, here / factors)


@stops
@op(differentiable=False)
def is_last_index(indices: Value, *, shape: Shape, batch_axes: int = 0) -> TensorType:
    """Return True for rows of `indices` that no later row of the same batch repeats; bool."""
    ...


@spelled
def scatter(x: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: Reduction = "set") -> Value:
    """Return x with the slices along `axis` at `indices` combined with `updates`, as in scatter_nd.

    `updates` has the type of gather(x, indices, axis=axis).
    """
    if reduction == "add":
        return scatter_add(x, indices, updates, axis=axis)
    axis = normal_axis(axis, x.rank)
    rows = reshape(indices, shape=(*(1,) * axis, *indices.shape, 1))
    if axis:
        rows = broadcast_to(rows, shape=(*x.shape[:axis], *indices.shape, 1))
    return scatter_nd(x, rows, updates, batch_axes=axis, reduction=reduction)


@spelled
def take_along_axis(x: Value, indices: Value, *, axis: int = -1) -> Value:
    """Return the elements of x at the positions `indices` along `axis` and the same positions elsewhere.

    `indices` has as many axes as x, and its extents along the other axes broadcast to x's.
    """
    axis = normal_axis(axis, x.rank)
    rows = _rows(x, _broadcast_indices(x, indices, axis), axis)
    return _last_to(gather_nd(_to_last(x, axis), rows, batch_axes=x.rank - 1), axis)


@spelled
def put_along_axis(x: Value, indices: Value, updates: Value, *, axis: int = -1, reduction: Reduction = "set") -> Value:
    """Return x with the elements that take_along_axis(x, indices, axis=axis) reads combined with `updates`.

    The reductions are those of scatter_nd; `updates` broadcasts to the elements read.
    """
    axis = normal_axis(axis, x.rank)
    indices = _broadcast_indices(x, indices, axis)
    if updates.shape != indices.shape:
        updates = broadcast_to(updates, shape=indices.shape)
    rows, updates = _rows(x, indices, axis), _to_last(updates, axis)
    return _last_to(scatter_nd(_to_last(x, axis), rows, updates, batch_axes=x.rank - 1, reduction=reduction), axis)


def _broadcast_indices(x: Value, indices: Value, axis: int) -> Value:
    """Return the indices broadcast to the extents of x along the other axes."""
    require(indices.rank == x.rank, f"x has {x.rank} axes, indices has {indices.rank}")
    shape = (*x.shape[:axis], indices.shape[axis], *x.shape[axis + 1 :])
    return indices if indices.shape == shape else broadcast_to(indices, shape=shape)


def _rows(x: Value, indices: Value, axis: int) -> Value:
    last = _to_last(indices, axis)
    return reshape(last, shape=(*last.shape, 1))


def _to_last(x: Value, axis: int) -> Value:
    order = [i for i in range(x.rank) if i != axis]
    return x if axis == x.rank - 1 else transpose(x, axis=(*order, axis))


def _last_to(x: Value, axis: int) -> Value:
    order = list(range(x.rank - 1))
    order.insert(axis, x.rank - 1)
    return x if axis == x.rank - 1 else transpose(x, axis=tuple(order))

"""Reductions by sum, product, mean and extremes, and broadcasting, which is their adjoint."""

from __future__ import annotations

from prograd_proto import TensorType
from prograd_proto.result_types.reductions import reduced
from prograd_proto.result_types.shapes import (
    normal_axes,
)
from prograd_proto.tensor_types import Shape
from registry.op import op
from registry.ops.copy import cast
from registry.ops.fill import count_like
from registry.ops.scan import cumprod
from registry.ops.shape import reshape
from registry.spellings import Axis
from registry.traits import copies, exact, exact_for_integers, grows, keeps_single, keeps_single_integers, repeats
from registry.value import Value


@keeps_single_integers
@exact_for_integers
@op
def sum(x: Value, *, axis: Axis = (), keepdims: bool = False) -> TensorType:
    """Return the sum along `axis`, or along all axes if empty; `keepdims` keeps them with extent 1.

    Integers and bool sum to int64.
    """
    ...


@sum.gradient
def sum_gradient(x: Value, dy: Value, *, axes: tuple[int, ...]) -> Value:
    return broadcast_to(with_axes(dy, x, axes), shape=x.shape)


@op
def mean(x: Value, *, axis: Axis = (), keepdims: bool = False) -> TensorType:
    """Return the mean along `axis`, or along all axes if empty; `keepdims` keeps them with extent 1."""
    ...


@mean.gradient
def mean_gradient(x: Value, dy: Value, *, axes: tuple[int, ...]) -> Value:
    share = dy / count_like(x, normal_axes(axes, x.rank))
    return broadcast_to(with_axes(share, x, axes), shape=x.shape)


@keeps_single
@exact_for_integers
@op
def max(x: Value, *, axis: Axis = (), keepdims: bool = False) -> TensorType:
    """Return the maximum along `axis`, or along all axes if empty; `keepdims` keeps them with extent 1.

    NaN wins. Equal maxima share the gradient evenly.
    """
    ...


@max.gradient
def max_gradient(x: Value, y: Value, dy: Value, *, axes: tuple[int, ...]) -> Value:
    return _shared(x >= with_axes(y, x, axes), x, dy, axes)


@keeps_single
@exact_for_integers
@op
def min(x: Value, *, axis: Axis = (), keepdims: bool = False) -> TensorType:
    """Return the minimum along `axis`, or along all axes if empty; `keepdims` keeps them with extent 1.

    NaN wins. Equal minima share the gradient evenly.
    """
    ...


@min.gradient
def min_gradient(x: Value, y: Value, dy: Value, *, axes: tuple[int, ...]) -> Value:
    return _shared(x <= with_axes(y, x, axes), x, dy, axes)


@keeps_single
@exact_for_integers
@op
def prod(x: Value, *, axis: Axis = (), keepdims: bool = False) -> TensorType:
    """Return the product along `axis`, or along all axes if empty; `keepdims` keeps them with extent 1.

    Integers and bool multiply to int64. The gradient is exact for zeros too.
    """
    ...


@prod.gradient
def prod_gradient(x: Value, dy: Value, *, axes: tuple[int, ...]) -> Value:
    """Return the gradient of prod: along each axis, dy times the products of the elements before and behind."""
    share, y = with_axes(dy, x, axes), x
    for axis in normal_axes(axes, x.rank):
        before, behind = (cumprod(y, axis=axis, exclusive=True, reverse=reverse) for reverse in (False, True))
        share = share * (before * behind)
        y = prod(y, axis=(axis,), keepdims=True)
    return share


@keeps_single
@exact
@op(differentiable=False)
def any(x: Value, *, axis: Axis = (), keepdims: bool = False) -> TensorType:
    """Return True if an element along `axes` is true; bool only. Empty `axes` are all; `keepdims` keeps extent 1."""
    ...


@keeps_single
@exact
@op(differentiable=False)
def all(x: Value, *, axis: Axis = (), keepdims: bool = False) -> TensorType:
    """Return True if all elements along `axes` are true; bool only. Empty `axes` are all; `keepdims` keeps extent 1."""
    ...


@op(differentiable=False)
def argmax(x: Value, *, axis: int = -1) -> TensorType:
    """Return the position of the maximum along `axis`, int64; the first of equal ones."""
    ...


@op(differentiable=False)
def argmin(x: Value, *, axis: int = -1) -> TensorType:
    """Return the position of the minimum along `axis`, int64; the first of equal ones."""
    ...


@copies
@repeats
@exact
@grows
@op
def broadcast_to(x: Value, *, shape: Shape) -> TensorType:
    """Return x broadcast to `shape` along axes of extent 1 and new leading axes."""
    ...


@broadcast_to.gradient
def broadcast_to_gradient(x: Value, dy: Value) -> Value:
    return sum_to(dy, x)


def sum_to(x: Value, like: Value) -> Value:
    """Return x summed to the shape of `like`, which is not read: the adjoint of broadcasting."""
    new = x.rank - like.rank
    repeated = tuple(new + i for i, extent in enumerate(like.shape) if extent == 1 and x.shape[new + i] != 1)
    if not new and not repeated:
        return x
    if not repeated:
        return sum(x, axis=tuple(range(new)))
    total = sum(x, axis=(*range(new), *repeated), keepdims=True)
    return reshape(total, shape=like.shape) if new else total


def with_axes(y: Value, x: Value, axes: tuple[int, ...]) -> Value:
    """Return a reduction's result or gradient y with the reduced axes of x as extents of 1."""
    return y if y.rank == x.rank else reshape(y, shape=reduced(x.shape, axes, True))


def _shared(is_taken: Value, x: Value, dy: Value, axes: tuple[int, ...]) -> Value:
    """Return the gradient dy of a reduction in equal parts for the elements that were chosen."""
    taken = cast(is_taken, dtype=x.dtype)
    return taken * (with_axes(dy, x, axes) / sum(taken, axis=axes, keepdims=True))

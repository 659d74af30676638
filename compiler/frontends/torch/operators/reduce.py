"""Reductions along axes of the model, running sums and positions of extremes."""

from __future__ import annotations

import math
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, like, pointwise, single, squeezed, viewed
from compiler.frontends.elements import cast_to
from compiler.frontends.extents import product
from compiler.frontends.pieces import sliced
from compiler.frontends.reductions import reduced
from compiler.frontends.torch.operators.call import Call, Mapping, along_axis, axis_of
from registry import Value, ops


def _of(function: Any) -> Mapping:
    def mapped(call: Call, x: Arranged, dims: Any = None, keepdim: bool = False, **more: Any) -> Arranged:
        x = cast_to(x, call.dtype)
        return reduced(lambda v, axes: function(v, axis=axes, keepdims=True), x, dims, keepdim)

    return mapped


def _sum(call: Call, x: Arranged, dims: Any = None, keepdim: bool = False, **more: Any) -> Arranged:
    x = cast_to(x, call.dtype)
    return cast_to(reduced(lambda v, axes: ops.sum(v, axis=axes, keepdims=True), x, dims, keepdim), call.dtype)


def _truth(function: Any) -> Mapping:
    def mapped(call: Call, x: Arranged, dims: Any = None, keepdim: bool = False) -> Arranged:
        return reduced(lambda v, axes: function(v, axis=axes, keepdims=True), cast_to(x, "bool"), dims, keepdim)

    return mapped


def _extreme(positions: Any) -> Mapping:
    def mapped(call: Call, x: Arranged, dim: int, keepdim: bool = False) -> tuple[Arranged, Arranged]:
        """Return the first extreme and its position; the gradient is that of the element at the position."""
        x, _ = single(x, [axis_of(dim, x.rank)])
        at = reduced(lambda v, axes: ops.unsqueeze(positions(v, axis=axes[0]), axis=axes), x, dim, True)
        best = reduced(lambda v, axes: ops.take_along_axis(v, at.value, axis=axes[0]), x, dim, True)
        axis = [axis_of(dim, x.rank)]
        return (best, at) if keepdim else (squeezed(best, axis), squeezed(at, axis))

    return mapped


def _position(function: Any) -> Mapping:
    def mapped(call: Call, x: Arranged, dim: int | None = None, keepdim: bool = False) -> Arranged:
        if dim is None:
            x, dim = viewed(x, (product(x.shape),)), 0
        keep = lambda v, axes: ops.unsqueeze(function(v, axis=axes[0]), axis=axes)  # noqa: E731 - as in the table
        x, _ = single(x, [axis_of(dim, x.rank)])
        return reduced(keep, x, dim, keepdim)

    return mapped


def _variance(function: Any) -> Mapping:
    def mapped(
        call: Call, x: Arranged, dims: Any = None, correction: Any = 1, keepdim: bool = False, **more: Any
    ) -> Arranged:
        less = 1.0 if correction is None else float(correction)
        return reduced(lambda v, axes: function(v, axis=axes, correction=less, keepdims=True), x, dims, keepdim)

    return mapped


def _with_mean(function: Any) -> Mapping:
    def mapped(call: Call, x: Arranged, dims: Any = None, **more: Any) -> tuple[Arranged, Arranged]:
        return _variance(function)(call, x, dims, **more), _of(ops.mean)(call, x, dims, more.get("keepdim", False))

    return mapped


def _nansum(call: Call, x: Arranged, dims: Any = None, keepdim: bool = False, **more: Any) -> Arranged:
    return _sum(call, pointwise(lambda v: ops.where(ops.isnan(v), 0.0, v), x), dims, keepdim)


def _triangle(x: Arranged, dim: int) -> tuple[Arranged, int, Value, Value]:
    """Return x, the place of an axis, x with a copy of that axis behind it, and True where the copy is not later."""
    x, [place] = single(x, [axis_of(dim, x.rank)])
    size = x.value.shape[place]
    if not isinstance(size, int):
        raise CompileError(f"running extremes of {size} elements need a number; import without that symbol")
    shape = x.value.shape
    wide = ops.broadcast_to(ops.unsqueeze(x.value, axis=(place,)), shape=(*shape[:place], size, *shape[place:]))
    numbers = ops.range.on(x.value.block)(stop=size, dtype="int64")
    rows = ops.reshape(numbers, shape=tuple(size if i == place else 1 for i in range(x.value.rank + 1)))
    columns = ops.reshape(numbers, shape=tuple(size if i == place + 1 else 1 for i in range(x.value.rank + 1)))
    return x, place, wide, columns <= rows


def _running(sign: float) -> Mapping:
    """Return the mapping of running maxima, or minima for a negative sign, with the last positions of each."""

    def mapped(call: Call, x: Arranged, dim: int) -> tuple[Arranged, Arranged]:
        x, place, wide, is_known = _triangle(x, dim)
        size = int(x.value.shape[place])
        wide = ops.cast(wide, dtype="float64") if not wide.dtype.startswith("float") else wide
        seen = ops.flip(ops.where(is_known, wide * sign, -math.inf), axis=(place + 1,))
        at = (size - 1) - ops.argmax(ops.stop_gradient(seen), axis=place + 1)
        return like(x, ops.take_along_axis(x.value, at, axis=place)), like(x, at)

    return mapped


def _running_logarithm(call: Call, x: Arranged, dim: int) -> Arranged:
    x, place, wide, is_known = _triangle(x, dim)
    return like(x, ops.logsumexp(ops.where(is_known, wide, -math.inf), axis=(place + 1,)))


def _sorted(call: Call, x: Arranged, dim: int = -1, descending: bool = False, **more: Any) -> tuple[Arranged, Arranged]:
    x, [place] = single(x, [axis_of(dim, x.rank)])
    made = [function(x.value, axis=place, descending=descending) for function in (ops.sort, ops.argsort)]
    return like(x, made[0]), like(x, made[1])


def _topk(call: Call, x: Arranged, k: int, dim: int = -1, largest: bool = True, *rest: Any) -> tuple[Arranged, ...]:
    x, [place] = single(x, [axis_of(dim, x.rank)])
    made = ops.topk(x.value, k=k, axis=place, largest=largest)
    return tuple(Arranged(y, x.axes, call.shape) for y in made)


def _kth(call: Call, x: Arranged, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Arranged, ...]:
    """Return the k-th smallest element along an axis, counted from 1, and its position."""
    axis = axis_of(dim, x.rank)
    pair = [sliced(y, axis, k - 1, k) for y in _sorted(call, x, axis)]
    return tuple(pair if keepdim else (squeezed(y, [axis]) for y in pair))


def _median(call: Call, x: Arranged, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the lower of the two middle elements."""
    if dim is None:
        x = viewed(x, (product(x.shape),))
    size = x.shape[axis_of(dim or 0, x.rank)]
    if size.symbols:
        raise CompileError(f"the median of {size} elements needs a number; import without that symbol")
    pair = _kth(call, x, (size.known() + 1) // 2, dim or 0, keepdim)
    return pair[0] if dim is None else pair


OPERATORS: Final[dict[str, Mapping]] = {
    "aten.sum.default": _sum,
    "aten.sum.dim_IntList": _sum,
    "aten.mean.default": _of(ops.mean),
    "aten.mean.dim": _of(ops.mean),
    "aten.amax.default": _of(ops.max),
    "aten.amin.default": _of(ops.min),
    "aten.max.default": _of(ops.max),
    "aten.min.default": _of(ops.min),
    "aten.max.dim": _extreme(ops.argmax),
    "aten.min.dim": _extreme(ops.argmin),
    "aten.argmax.default": _position(ops.argmax),
    "aten.argmin.default": _position(ops.argmin),
    "aten.prod.default": _of(ops.prod),
    "aten.prod.dim_int": _of(ops.prod),
    "aten.any.default": _truth(ops.any),
    "aten.any.dim": _truth(ops.any),
    "aten.any.dims": _truth(ops.any),
    "aten.all.default": _truth(ops.all),
    "aten.all.dim": _truth(ops.all),
    "aten.logsumexp.default": _of(ops.logsumexp),
    "aten.var.correction": _variance(ops.variance),
    "aten.std.correction": _variance(ops.standard_deviation),
    "aten.var_mean.correction": _with_mean(ops.variance),
    "aten.std_mean.correction": _with_mean(ops.standard_deviation),
    "aten.nansum.default": _nansum,
    "aten.cumsum.default": along_axis(ops.cumsum),
    "aten.cumprod.default": along_axis(ops.cumprod),
    "aten.cummax.default": _running(1.0),
    "aten.cummin.default": _running(-1.0),
    "aten.logcumsumexp.default": _running_logarithm,
    "aten.sort.default": _sorted,
    "aten.sort.stable": _sorted,
    "aten.topk.default": _topk,
    "aten.kthvalue.default": _kth,
    "aten.median.dim": _median,
    "aten.median.default": _median,
}

"""Reductions, statistics, running sums and products, sorting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from compiler import Value, ops
from peers.spelling import axes_of, peer, unless

Dim = int | Sequence[int] | None
NO_AXES = "a scalar has no axis to name"


def _axes(x: Value, dim: Dim) -> tuple[int, ...]:
    return axes_of(dim) if x.rank else ()  # PyTorch lets a scalar have the axes 0 and -1


def _axis(x: Value, dim: int) -> tuple[Value, int, Callable[[Value], Value]]:
    """The tensor with an axis at least, that axis, and what takes it away again."""
    if x.rank:
        return x, dim, lambda y: y
    return ops.reshape(x, shape=(1,)), 0, lambda y: ops.reshape(y, shape=())


@peer("sum", "sum")
def sum(x: Value, dim: Dim = None, keepdim: bool = False, *, dtype: str | None = None) -> Value:
    return ops.sum(x, axis=_axes(x, dim), keepdims=keepdim)


@peer("mean", "mean")
def mean(x: Value, dim: Dim = None, keepdim: bool = False, *, dtype: str | None = None) -> Value:
    return ops.mean(x, axis=_axes(x, dim), keepdims=keepdim)


@peer("amax", "max")
def amax(x: Value, dim: Dim = (), keepdim: bool = False) -> Value:
    return ops.max(x, axis=_axes(x, dim), keepdims=keepdim)


@peer("amin", "min")
def amin(x: Value, dim: Dim = (), keepdim: bool = False) -> Value:
    return ops.min(x, axis=_axes(x, dim), keepdims=keepdim)


@peer("max", "max", "argmax", variant="reduction_with_dim")
def max_along(x: Value, dim: int, keepdim: bool = False) -> list[Value]:
    x, axis, back = _axis(x, dim)
    y, i = ops.max(x, axis=(axis,), keepdims=True), ops.argmax(x, axis=axis)
    i = ops.unsqueeze(i, axis=(axis,))
    return [back(z if keepdim else ops.squeeze(z, axis=(axis,))) for z in (y, i)]


@peer("min", "min", "argmin", variant="reduction_with_dim")
def min_along(x: Value, dim: int, keepdim: bool = False) -> list[Value]:
    x, axis, back = _axis(x, dim)
    y, i = ops.min(x, axis=(axis,), keepdims=True), ops.argmin(x, axis=axis)
    i = ops.unsqueeze(i, axis=(axis,))
    return [back(z if keepdim else ops.squeeze(z, axis=(axis,))) for z in (y, i)]


@peer("max", "max", variant="reduction_no_dim")
def max_of_all(x: Value) -> Value:
    return ops.max(x)


@peer("min", "min", variant="reduction_no_dim")
def min_of_all(x: Value) -> Value:
    return ops.min(x)


@peer("prod", "prod")
def prod(x: Value, dim: Dim = None, keepdim: bool = False, *, dtype: str | None = None) -> Value:
    return ops.prod(x, axis=_axes(x, dim), keepdims=keepdim)


@peer("logsumexp", "logsumexp")
def logsumexp(x: Value, dim: Dim, keepdim: bool = False) -> Value:
    return ops.logsumexp(x, axis=_axes(x, dim), keepdims=keepdim)


def _correction(args: Sequence[Any], correction: float | None, unbiased: bool | None) -> tuple[Dim, float]:
    """The axes, and what is taken off the number of elements, in PyTorch's two ways to say it."""
    dim = None if args and isinstance(args[0], bool) else (args[0] if args else None)
    given = args[0] if args and isinstance(args[0], bool) else unbiased
    if given is not None:
        return dim, float(given)
    return dim, 1.0 if correction is None else float(correction)


@peer("var", "variance")
@peer("var", "variance", variant="unbiased")
def var(
    x: Value,
    *args: Any,
    dim: Dim = None,
    correction: float | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
) -> Value:
    given, less = _correction(args, correction, unbiased)
    return ops.variance(x, axis=axes_of(dim if given is None else given), correction=less, keepdims=keepdim)


@peer("std", "standard_deviation")
@peer("std", "standard_deviation", variant="unbiased")
def std(
    x: Value,
    *args: Any,
    dim: Dim = None,
    correction: float | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
) -> Value:
    given, less = _correction(args, correction, unbiased)
    return ops.standard_deviation(x, axis=axes_of(dim if given is None else given), correction=less, keepdims=keepdim)


@peer("var_mean", "variance", "mean")
@peer("var_mean", "variance", "mean", variant="unbiased")
def var_mean(x: Value, *args: Any, dim: Dim = None, keepdim: bool = False, **kwargs: Any) -> list[Value]:
    given, _ = _correction(args, None, None)
    axes = axes_of(dim if given is None else given)
    return [var(x, *args, dim=dim, keepdim=keepdim, **kwargs), ops.mean(x, axis=axes, keepdims=keepdim)]


@peer("linalg.vector_norm", "norm")
def vector_norm(x: Value, ord: float = 2, dim: Dim = None, keepdim: bool = False, *, dtype: str | None = None) -> Value:
    return ops.norm(x, ord=float(ord), axis=_axes(x, dim), keepdims=keepdim)


@peer("norm", "norm")
@peer("norm", "norm", variant="inf")
@peer("norm", "norm", variant="fro")
def norm(x: Value, p: float | str = "fro", dim: Dim = None, keepdim: bool = False, dtype: str | None = None) -> Value:
    return ops.norm(x, ord=2.0 if p == "fro" else float(p), axis=_axes(x, dim), keepdims=keepdim)


@peer("dist", "norm")
def dist(a: Value, b: Value, p: float = 2) -> Value:
    return ops.norm(a - b, ord=float(p))


@peer("nn.functional.normalize", "norm", "maximum")
def normalize(x: Value, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Value:
    unless(x.rank == 0, NO_AXES)
    return x / ops.maximum(ops.norm(x, ord=float(p), axis=(dim,), keepdims=True), eps)


@peer("cumsum", "cumsum")
def cumsum(x: Value, dim: int, *, dtype: str | None = None) -> Value:
    x, axis, back = _axis(x, dim)
    return back(ops.cumsum(x, axis=axis))


@peer("cumprod", "cumprod")
def cumprod(x: Value, dim: int, *, dtype: str | None = None) -> Value:
    x, axis, back = _axis(x, dim)
    return back(ops.cumprod(x, axis=axis))


@peer("sort", "sort", "argsort")
def sort(x: Value, dim: int = -1, descending: bool = False, *, stable: bool = False) -> list[Value]:
    x, axis, back = _axis(x, dim)
    return [back(op(x, axis=axis, descending=descending)) for op in (ops.sort, ops.argsort)]


@peer("msort", "sort")
def msort(x: Value) -> Value:
    return ops.sort(x, axis=0)


@peer("topk", "topk")
def topk(x: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> list[Value]:
    unless(not sorted, "the order of what is not sorted is not said")
    x, axis, back = _axis(x, dim)
    return [back(y) for y in ops.topk(x, k=k, axis=axis, largest=largest)]


@peer("kthvalue", "sort", "argsort")
def kthvalue(x: Value, k: int, dim: int = -1, keepdim: bool = False) -> list[Value]:
    x, axis, back = _axis(x, dim)
    axis %= x.rank
    at = (slice(None),) * axis
    both = [op(x, axis=axis)[(*at, slice(k - 1, k))] for op in (ops.sort, ops.argsort)]
    return [back(y if keepdim else ops.squeeze(y, axis=(axis,))) for y in both]


@peer("softmax", "softmax")
@peer("softmax", "softmax", variant="with_dtype")
def softmax(x: Value, dim: int, dtype: str | None = None) -> Value:
    x, axis, back = _axis(x, dim)
    return back(ops.softmax(x, axis=axis))


@peer("log_softmax", "log_softmax")
@peer("log_softmax", "log_softmax", variant="with_dtype")
def log_softmax(x: Value, dim: int, dtype: str | None = None) -> Value:
    x, axis, back = _axis(x, dim)
    return back(ops.log_softmax(x, axis=axis))


@peer("nn.functional.softmin", "softmax")
def softmin(x: Value, dim: int | None = None, dtype: str | None = None) -> Value:
    x, axis, back = _axis(-x, -1 if dim is None else dim)
    return back(ops.softmax(x, axis=axis))

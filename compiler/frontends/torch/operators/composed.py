"""Functions that are composed of a few ops: stacks, tiles, masked scatters, contractions, shifts and signs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from string import ascii_letters
from typing import Any, Final

from compiler.frontends.arranged import Arranged, arranged, expanded, plain, pointwise, unsqueezed, viewed
from compiler.frontends.elements import cast_to
from compiler.frontends.extents import product
from compiler.frontends.torch.operators.call import Call, Mapping, binary, promoted
from compiler.frontends.torch.operators.shape import cat
from registry import Value, ops


def _widened(x: Arranged, rank: int) -> Arranged:
    """Return x with at least this many axes: a vector becomes a row, and a third axis is added at the end."""
    while x.rank < rank:
        x = unsqueezed(x, 2 if x.rank == 2 else 0)
    return x


def _at_least(rank: int) -> Mapping:
    return lambda call, x: (
        tuple(_widened(each, rank) for each in x) if isinstance(x, list | tuple) else _widened(x, rank)
    )


def _stacked(rank: int, axis: int) -> Mapping:
    """Return the mapping of a concatenation of tensors that get axes; that of vectors is along axis 0."""

    def mapped(call: Call, xs: Sequence[Arranged]) -> Arranged:
        return cat(call, [_widened(x, rank) for x in xs], min(axis, max(x.rank for x in xs) - 1) if rank == 1 else axis)

    return mapped


def _masked_scatter(call: Call, x: Arranged, mask: Arranged, source: Arranged) -> Arranged:
    """Return x with the elements at a mask replaced by those of the source, one after the other."""
    where = expanded(mask, call.shape)
    flat = plain(viewed(where, (product(call.shape),)))
    number = ops.maximum(ops.cumsum(ops.cast(flat, dtype="int64"), axis=0) - 1, 0)
    taken = ops.gather(plain(viewed(source, (product(source.shape),))), number, axis=0)
    return pointwise(ops.where, where, viewed(arranged(taken), call.shape), expanded(x, call.shape))


def _tensordot(call: Call, a: Arranged, b: Arranged, axes_a: Sequence[int], axes_b: Sequence[int]) -> Arranged:
    letters = iter(ascii_letters)
    left, right = [next(letters) for _ in range(a.rank)], [next(letters) for _ in range(b.rank)]
    for i, j in zip(axes_a, axes_b, strict=True):
        right[j] = left[i]
    shared = {left[i] for i in axes_a}
    rest = "".join(each for each in [*left, *right] if each not in shared)
    if a.rank == b.rank == len(axes_a) == 1:
        return arranged(ops.sum(plain(a) * plain(b)))
    return arranged(ops.einsum(f"{''.join(left)},{''.join(right)}->{rest}", plain(a), plain(b)))


def _copysign(call: Call, a: Arranged, b: Arranged | float) -> Arranged:
    """Return the absolute value of a with the sign of b, which a zero has, too."""
    operands = promoted((a, b), call.dtype)

    def signed(v: Value, w: Any) -> Value:
        if not isinstance(w, Value):
            return ops.abs(v) * math.copysign(1.0, w)
        return ops.abs(v) * (1.0 - 2.0 * ops.cast(_has_sign(w), dtype=v.dtype))

    return pointwise(signed, *operands)


def _has_sign(v: Value) -> Value:
    """Return True for numbers below 0 and for the zero that has a sign."""
    is_below = v < 0
    return ops.logical_or(is_below, 1.0 / ops.stop_gradient(v) < 0.0) if v.dtype.startswith("float") else is_below


def _round(call: Call, x: Arranged, *, decimals: int = 0) -> Arranged:
    scale = 10.0 ** abs(decimals)
    if decimals >= 0:
        return pointwise(lambda v: ops.round(v * scale) / scale, x)
    return pointwise(lambda v: ops.round(v / scale) * scale, x)


def _searchsorted(
    call: Call, edges: Arranged, x: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Any = None,
) -> Arranged:  # fmt: skip
    """Return the number of edges below each element; edges of several axes have a row for each row of x."""
    if sorter is not None:
        edges = arranged(ops.take_along_axis(plain(edges), plain(sorter), axis=edges.rank - 1))
    compare = ops.greater_equal if right or side == "right" else ops.greater
    is_number = not isinstance(x, Arranged)
    wide = x if is_number else unsqueezed(cast_to(x, edges.dtype), x.rank)
    rows = edges if edges.rank == 1 or is_number else unsqueezed(edges, edges.rank - 1)
    above = pointwise(lambda e, v: compare(v, e) if isinstance(v, Value) else compare(e * 0 + v, e), rows, wide)
    return arranged(ops.sum(ops.cast(plain(above), dtype=call.dtype), axis=(-1,)))


def _fold(call: Call, x: Arranged, size: Any, window: Any, dilation: Any, padding: Any, stride: Any) -> Arranged:
    """Return images that sum windows [n, c * h * w, count]: torch.nn.functional.fold."""
    spans = [(size[i] + 2 * padding[i] - dilation[i] * (window[i] - 1) - 1) // stride[i] + 1 for i in (0, 1)]
    if x.rank == 2:
        x = unsqueezed(x, 0)
    n, taps = x.shape[0].plain(), prod(window)
    channels = x.shape[1].known() // taps
    value = ops.reshape(plain(x), shape=(n, channels, taps, *spans))
    value = ops.reshape(ops.transpose(value, axis=(0, 3, 4, 2, 1)), shape=(n, *spans, taps * channels))
    y = ops.fold(
        value, shape=(n, *size, channels), window=tuple(window), stride=tuple(stride),
        padding=(*padding, *padding), dilation=tuple(dilation),
    )  # fmt: skip
    image = ops.transpose(y, axis=(0, 3, 1, 2))
    return viewed(arranged(image), call.shape)


OPERATORS: Final[dict[str, Mapping]] = {
    **{f"aten.atleast_{rank}d.{form}": _at_least(rank) for rank in (1, 2, 3) for form in ("default", "Sequence")},
    "aten.hstack.default": _stacked(1, 1),
    "aten.vstack.default": _stacked(2, 0),
    "aten.dstack.default": _stacked(3, 2),
    "aten.masked_scatter.default": _masked_scatter,
    "aten.tensordot.default": _tensordot,
    "aten.inner.default": lambda call, a, b: (
        _tensordot(call, a, b, [a.rank - 1], [b.rank - 1]) if a.rank and b.rank else pointwise(ops.mul, a, b)
    ),
    "aten.hypot.default": binary(lambda a, b: ops.sqrt(ops.square(a) + ops.square(b))),
    "aten.copysign.Tensor": _copysign,
    "aten.copysign.Scalar": _copysign,
    "aten.signbit.default": lambda call, x: pointwise(_has_sign, x),
    "aten.ldexp.Tensor": binary(lambda a, b: a * ops.pow(2.0, b)),
    "aten.round.decimals": _round,
    "aten.searchsorted.Tensor": _searchsorted,
    "aten.bucketize.Tensor": lambda call, x, edges, **more: _searchsorted(call, edges, x, **more),
    "aten.col2im.default": _fold,
    **{f"aten.__lshift__.{form}": binary(ops.left_shift) for form in ("Scalar", "Tensor")},
    **{f"aten.__rshift__.{form}": binary(ops.right_shift) for form in ("Scalar", "Tensor")},
    "aten.bitwise_left_shift.Tensor": binary(ops.left_shift),
    "aten.bitwise_right_shift.Tensor": binary(ops.right_shift),
}

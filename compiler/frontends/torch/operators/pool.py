"""Pooling: windows, adaptive sizes, and means over whole images."""

# pyright: basic
# PyTorch is imported by name and has no types here, nor have the lambdas of a table.

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, squeezed, unsqueezed
from compiler.frontends.channels import first, last
from compiler.frontends.extents import Extent
from compiler.frontends.torch.operators.call import Call, Mapping
from compiler.frontends.torch.operators.conv import numbers
from registry import Value, ops


def _batched(x: Arranged, axes: int, function: Any) -> Arranged:
    """Return the result of a function of values with channels last; a batch is added if there is none."""
    if x.rank == axes + 1:
        return squeezed(first(function(last(unsqueezed(x, 0)))), [0])
    return first(function(last(x)))


def _max_pool(axes: int) -> Mapping:
    def mapped(
        call: Call,
        x: Arranged,
        window: int | Sequence[int],
        stride: int | Sequence[int] = (),
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        ceil_mode: bool = False,
    ) -> Arranged:
        def function(v: Value) -> Value:
            return ops.max_pool(
                v,
                window=numbers(window, axes),
                stride=numbers(stride or window, axes),
                padding=numbers(padding, axes),
                dilation=numbers(dilation, axes),
                ceil_mode=ceil_mode,
            )

        return _batched(x, axes, function)

    return mapped


def _with_indices(axes: int) -> Mapping:
    pool = _max_pool(axes)
    return lambda call, *operands: (pool(call, *operands), None)


def _avg_pool(axes: int) -> Mapping:
    def mapped(
        call: Call,
        x: Arranged,
        window: int | Sequence[int],
        stride: int | Sequence[int] = (),
        padding: int | Sequence[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Arranged:
        def function(v: Value) -> Value:
            if divisor_override is not None:
                return _window_sum(v, axes, window, stride, padding, ceil_mode) * (1.0 / divisor_override)
            return ops.avg_pool(
                v,
                window=numbers(window, axes),
                stride=numbers(stride or window, axes),
                padding=numbers(padding, axes),
                ceil_mode=ceil_mode,
                count_include_pad=count_include_pad,
            )

        return _batched(x, axes, function)

    return mapped


def _window_sum(v: Value, axes: int, window: Any, stride: Any, padding: Any, ceil_mode: bool) -> Value:
    """Return the sums of windows with channels last, where the image is padded so that all windows are whole."""
    sizes, steps, pads = numbers(window, axes), numbers(stride or window, axes), numbers(padding, axes)
    before, after = [0], [0]
    for extent, size, step, pad in zip(v.shape[1:-1], sizes, steps, pads, strict=True):
        if not isinstance(extent, int):
            raise CompileError(f"windows along {extent} pixels need a number; import without that symbol")
        rest = extent + 2 * pad - size
        count = rest // step + 1
        if ceil_mode and rest % step and count * step < extent + pad:  # the last window begins inside
            count += 1
        before.append(pad)
        after.append(max(pad, (count - 1) * step + size - extent - pad))
    padded = ops.pad(v, before=(*before, 0), after=(*after, 0))
    return ops.avg_pool(padded, window=sizes, stride=steps) * float(math.prod(sizes))


def _adaptive(function: Any, axes: int) -> Mapping:
    def mapped(call: Call, x: Arranged, size: int | Sequence[int | None]) -> Arranged:
        asked = [size] * axes if isinstance(size, int) else list(size)
        sizes = [x.shape[x.rank - axes + i] if n is None else n for i, n in enumerate(asked)]
        asked = [n.known() if isinstance(n, Extent) else n for n in sizes]
        if all(n == 1 for n in asked):
            name = "max" if function is ops.adaptive_max_pool else "mean"
            return _batched(x, axes, lambda v: getattr(ops, name)(v, axis=tuple(range(1, v.rank - 1)), keepdims=True))
        return _batched(x, axes, lambda v: function(v, size=tuple(asked)))

    return mapped


OPERATORS: Final[dict[str, Mapping]] = {
    **{f"aten.max_pool{n}d.default": _max_pool(n) for n in (1, 2, 3)},
    **{f"aten.max_pool{n}d_with_indices.default": _with_indices(n) for n in (2, 3)},
    **{f"aten.avg_pool{n}d.default": _avg_pool(n) for n in (1, 2, 3)},
    **{f"aten.adaptive_avg_pool{n}d.default": _adaptive(ops.adaptive_avg_pool, n) for n in (1, 2, 3)},
    "aten._adaptive_avg_pool2d.default": _adaptive(ops.adaptive_avg_pool, 2),
    **{
        f"aten.adaptive_max_pool{n}d.default": (lambda pool: lambda *operands: (pool(*operands), None))(
            _adaptive(ops.adaptive_max_pool, n)
        )
        for n in (1, 2, 3)
    },
}

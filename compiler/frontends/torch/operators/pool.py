"""Pooling: windows, adaptive sizes, and means over whole images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged, expanded, plain, squeezed, unsqueezed, viewed
from compiler.frontends.channels import first, last
from compiler.frontends.extents import Extent
from compiler.frontends.torch.operators.call import Call, Mapping
from compiler.frontends.torch.operators.conv import numbers, windows
from registry import Value, ops

Numbers = tuple[int, ...]


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
        pieces = windows(axes, window=window, stride=stride or window, padding=padding, dilation=dilation)
        return _batched(x, axes, lambda v: ops.max_pool(v, ceil_mode=ceil_mode, **pieces))

    return mapped


def _with_indices(axes: int) -> Mapping:
    """Return the mapping of a pool that also gives the positions of the maxima, counted within each image."""
    pool = _max_pool(axes)

    def mapped(
        call: Call, x: Arranged, window: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False
    ) -> tuple[Arranged, Arranged]:
        torch: Any = import_module("torch")
        pieces = zip(*(numbers(n, axes) for n in (window, stride or window, padding, dilation)), strict=True)
        tables = [
            torch.arange(count)[:, None] * step - pad + torch.arange(size) * apart
            for count, (size, step, pad, apart) in zip(_extents(call.shape, axes), pieces, strict=True)
        ]
        return pool(call, x, window, stride, padding, dilation, ceil), _positions(call, x, tables)

    return mapped


def _extents(shape: Sequence[Extent], axes: int) -> list[int]:
    return [extent.known() for extent in shape[len(shape) - axes :]]


def _positions(call: Call, x: Arranged, tables: Sequence[Any]) -> Arranged:
    """Return the positions of the first maxima within the images of x.

    Args:
        call: the call, whose first result has the shape of the positions.
        x: images with channels first.
        tables: for each axis, the elements of each window [windows, elements]; those outside of the axis are left out.
    """
    torch: Any = import_module("torch")
    axes, extents = len(tables), _extents(x.shape, len(tables))
    v, lead = ops.stop_gradient(plain(x)), x.rank - axes
    inside, places = torch.tensor(True), torch.tensor(0)
    for i, (table, extent) in enumerate(zip(tables, extents, strict=True)):
        v = ops.gather(v, call.store(table.clamp(0, extent - 1).numpy()), axis=lead + 2 * i)
        own = table.reshape([table.shape[0 if j == i else 1] if j in (i, axes + i) else 1 for j in range(2 * axes)])
        inside, places = inside & (own >= 0) & (own < extent), places * extent + own
    v = ops.transpose(v, axis=(*range(lead), *range(lead, v.rank, 2), *range(lead + 1, v.rank, 2)))
    v = ops.reshape(v, shape=(*v.shape[: lead + axes], math.prod(table.shape[1] for table in tables)))
    cells = [*inside.shape[:axes]]
    v = ops.where(call.store(inside.reshape(*cells, -1).numpy()), v, -math.inf)
    first_of = torch.arange(math.prod(cells)).reshape(cells) * v.shape[-1]
    best = ops.argmax(v, axis=-1) + call.store(first_of.numpy())
    return arranged(ops.gather(call.store(places.reshape(-1).numpy()), best, axis=0))


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
        pieces = windows(axes, window=window, stride=stride or window, padding=padding)

        def function(v: Value) -> Value:
            if divisor_override is not None:
                return _window_sum(v, **pieces, ceil_mode=ceil_mode) * (1.0 / divisor_override)
            return ops.avg_pool(v, ceil_mode=ceil_mode, count_include_pad=count_include_pad, **pieces)

        return _batched(x, axes, function)

    return mapped


def _window_sum(v: Value, *, window: Numbers, stride: Numbers, padding: Numbers, ceil_mode: bool) -> Value:
    """Return the sums of windows with channels last, where the image is padded so that all windows are whole."""
    before, after = [0], [0]
    for extent, size, step, pad in zip(v.shape[1:-1], window, stride, padding, strict=True):
        if not isinstance(extent, int):
            raise CompileError(f"windows along {extent} pixels need a number; import without that symbol")
        rest = extent + 2 * pad - size
        count = rest // step + 1
        if ceil_mode and rest % step and count * step < extent + pad:  # the last window begins inside
            count += 1
        before.append(pad)
        after.append(max(pad, (count - 1) * step + size - extent - pad))
    padded = ops.pad(v, before=(*before, 0), after=(*after, 0))
    return ops.avg_pool(padded, window=window, stride=stride) * float(math.prod(window))


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


def _adaptive_with_indices(axes: int) -> Mapping:
    pool = _adaptive(ops.adaptive_max_pool, axes)

    def mapped(call: Call, x: Arranged, size: Any) -> tuple[Arranged, Arranged]:
        torch: Any = import_module("torch")
        tables: list[Any] = []
        for extent, count in zip(_extents(x.shape, axes), _extents(call.shape, axes), strict=True):
            starts = torch.arange(count) * extent // count
            stops = -(-torch.arange(1, count + 1) * extent // count)
            table = starts[:, None] + torch.arange(int((stops - starts).max()))
            tables.append(torch.where(table < stops[:, None], table, -1))
        return pool(call, x, size), _positions(call, x, tables)

    return mapped


def _unpool(axes: int) -> Mapping:
    """Return the mapping of a pool's inverse: zeros, but for elements at positions within each image."""

    def mapped(call: Call, x: Arranged, indices: Arranged, *rest: Any) -> Arranged:
        lead, own = x.shape[:-axes], math.prod(_extents(x.shape, axes))
        whole = (*lead, Extent(math.prod(_extents(call.shape, axes))))
        zero = ops.full.on(call.block)(shape=(), value=0.0, dtype=x.value.dtype)
        blank = plain(expanded(arranged(zero), whole))
        flat, at = (plain(viewed(each, (*lead, Extent(own)))) for each in (x, indices))
        return viewed(arranged(ops.put_along_axis(blank, at, flat, axis=-1)), call.shape)

    return mapped


OPERATORS: Final[dict[str, Mapping]] = {
    **{f"aten.max_pool{n}d.default": _max_pool(n) for n in (1, 2, 3)},
    **{f"aten.max_pool{n}d_with_indices.default": _with_indices(n) for n in (2, 3)},
    **{f"aten.avg_pool{n}d.default": _avg_pool(n) for n in (1, 2, 3)},
    **{f"aten.adaptive_avg_pool{n}d.default": _adaptive(ops.adaptive_avg_pool, n) for n in (1, 2, 3)},
    "aten._adaptive_avg_pool2d.default": _adaptive(ops.adaptive_avg_pool, 2),
    **{f"aten.max_unpool{n}d.default": _unpool(n) for n in (2, 3)},
    **{f"aten.adaptive_max_pool{n}d.default": _adaptive_with_indices(n) for n in (1, 2, 3)},
}

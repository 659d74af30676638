"""Elements by their positions: rolls, flips, windows, strided views."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged, like, permuted, plain, single, unsqueezed, viewed
from compiler.frontends.extents import Extent
from compiler.frontends.pieces import after_gather, number_of, positions, sliced
from compiler.frontends.torch.operators.call import Call, Mapping, axis_of
from compiler.frontends.torch.operators.shape import cat, count_of
from registry import Value, ops

MAX_TAPS: Final = 32
"""Number of elements of a window up to which each is a slice of the whole axis; longer windows are gathered."""


def _roll(call: Call, x: Arranged, shifts: Sequence[Any], dims: Sequence[int] = ()) -> Arranged:
    if not dims:
        flat = viewed(x, (Extent(count_of(x)),))
        return viewed(arranged(ops.roll(plain(flat), shifts=(int(shifts[0]),), axis=(0,))), x.shape)
    if any(not isinstance(shift, int) for shift in shifts):
        raise CompileError("rolls by a number of positions that depends on a symbol; roll axes whose sizes are numbers")
    axes = [axis_of(d, x.rank) for d in dims]
    x, places = single(x, axes)
    for axis, place, shift in zip(axes, places, shifts, strict=True):
        if x.shape[axis].symbols:
            x = like(x, ops.gather(x.value, _rolled(x, axis, int(shift)), axis=place))
    known = [
        (place, int(shift))
        for axis, place, shift in zip(axes, places, shifts, strict=True)
        if not x.shape[axis].symbols
    ]
    if not known:
        return x
    return like(x, ops.roll(x.value, shifts=tuple(n for _, n in known), axis=tuple(place for place, _ in known)))


def _rolled(x: Arranged, axis: int, shift: int) -> Value:
    """Return the positions that the positions of an axis with a symbol have after a roll."""
    numbers, size = positions(x.value.block, x.shape[axis]), number_of(x.value.block, x.shape[axis], "int64")
    return ops.remainder(numbers - shift, size)


def _flip(call: Call, x: Arranged, dims: Sequence[int]) -> Arranged:
    axes = [axis_of(d, x.rank) for d in dims]
    x, places = single(x, axes)
    for axis, place in zip(axes, places, strict=True):
        if x.shape[axis].symbols:
            last = number_of(x.value.block, x.shape[axis], "int64") - 1
            x = like(x, ops.gather(x.value, last - positions(x.value.block, x.shape[axis]), axis=place))
    known = [place for axis, place in zip(axes, places, strict=True) if not x.shape[axis].symbols]
    return like(x, ops.flip(x.value, axis=tuple(known))) if known else x


def _unfold(call: Call, x: Arranged, dim: int, size: int, step: int) -> Arranged:
    """Return the windows along an axis, with a new last axis within each."""
    axis = axis_of(dim, x.rank)
    count = call.shape[axis].known()
    if size > MAX_TAPS:
        x, [place] = single(x, [axis])
        starts = ops.range.on(call.block)(stop=count, dtype="int64") * step
        numbers = ops.unsqueeze(starts, axis=(1,)) + ops.range.on(call.block)(stop=size, dtype="int64")
        wide = Arranged(
            ops.gather(x.value, numbers, axis=place),
            after_gather(x, axis, place, 2),
            (*x.shape[:axis], Extent(count), Extent(size), *x.shape[axis + 1 :]),
        )
        return permuted(wide, [*(i for i in range(wide.rank) if i != axis + 1), axis + 1])
    taps = [unsqueezed(sliced(x, axis, i, i + step * (count - 1) + 1, step), x.rank) for i in range(size)]
    return cat(call, taps, x.rank)


def _as_strided(call: Call, x: Arranged, size: Any, stride: Sequence[int], offset: int | None = 0) -> Arranged:
    """Return elements of a contiguous tensor by their places in memory; those of a symbol's axis stay in their row."""
    rows, width, places = _places(x, call.shape, stride, offset or 0)
    flat = viewed(x, (*x.shape[:rows], Extent(width)))
    return viewed(arranged(ops.gather(plain(flat), call.store(places.numpy()), axis=rows)), call.shape)


def _as_strided_scatter(
    call: Call, x: Arranged, source: Arranged, size: Any, stride: Sequence[int], offset: int | None = 0
) -> Arranged:
    """Return a contiguous tensor with the elements of `source` at places in memory."""
    rows, width, places = _places(x, source.shape, stride, offset or 0)
    torch: Any = import_module("torch")
    count = len(places)
    flat = [viewed(each, (*x.shape[:rows], Extent(n))) for each, n in ((x, width), (source, count))]
    origin = torch.arange(width)
    origin[places] = width + torch.arange(count)
    made = ops.gather(ops.concat(*map(plain, flat), axis=rows), call.store(origin.numpy()), axis=rows)
    return viewed(arranged(made), x.shape)


def _places(x: Arranged, shape: Sequence[Extent], stride: Sequence[int], offset: int) -> tuple[int, int, Any]:
    """Return 1 for a symbol's axis, the elements of x behind it, and the places of a strided view among these."""
    rows = 1 if x.rank and x.shape[0].symbols else 0
    width = math.prod(extent.known() for extent in x.shape[rows:])
    is_apart = rows and (tuple(shape[:1]), list(stride[:1])) != (tuple(x.shape[:1]), [width])
    if is_apart or any(extent.symbols for extent in shape[rows:]):
        raise CompileError(_across(x))
    torch: Any = import_module("torch")
    places = torch.tensor(offset)
    for extent, step in zip(shape[rows:], stride[rows:], strict=True):
        places = places[..., None] + torch.arange(extent.number) * step
    if places.numel() and places.max() >= width:
        raise CompileError(_across(x))
    return rows, width, places.reshape(-1)


def _across(x: Arranged) -> str:
    return (
        f"as_strided reads elements across the rows of an axis with {x.shape[0]} elements, which is no view; use "
        "slices, unfold or an index"
    )


OPERATORS: Final[dict[str, Mapping]] = {
    "aten.roll.default": _roll,
    "aten.flip.default": _flip,
    "aten.unfold.default": _unfold,
    "aten.as_strided.default": _as_strided,
    "aten.as_strided_scatter.default": _as_strided_scatter,
}

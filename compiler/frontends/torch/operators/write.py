"""Writes into parts of tensors: slices, single positions, whole tensors."""

from __future__ import annotations

from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import (
    Arranged,
    arranged,
    expanded,
    permuted,
    plain,
    pointwise,
    single,
    unsqueezed,
    viewed,
)
from compiler.frontends.extents import ONE, Extent
from compiler.frontends.pieces import constants, number_of, sliced
from compiler.frontends.pieces import positions as positions_of
from compiler.frontends.torch.operators.call import Call, Mapping, axis_of, promoted
from compiler.frontends.torch.operators.shape import cat
from registry import Value, ops


def _slice_scatter(
    call: Call, x: Arranged, y: Arranged, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Arranged:
    axis = axis_of(dim, x.rank)
    if y.shape == x.shape:
        return y
    if x.shape[axis].symbols:
        return _along_symbol(call, x, y, axis, start or 0, step)
    first, last, step = slice(start, end, step).indices(x.shape[axis].known())
    positions = range(first, last, step)
    if not positions:
        return x
    if step != 1:
        return _interleaved(call, x, y, axis, positions)
    parts = [sliced(x, axis, 0, first)] if first else []
    parts.append(y)
    parts += [sliced(x, axis, last, x.shape[axis].known())] if last < x.shape[axis].known() else []
    return cat(call, parts, axis)


def _interleaved(call: Call, x: Arranged, y: Arranged, axis: int, positions: range) -> Arranged:
    """Return x with the elements of y at positions along an axis of the model."""
    every = range(x.shape[axis].known())
    nearest = [min(max(i - positions.start, 0) // positions.step, len(positions) - 1) for i in every]
    is_written = constants(call.block, [i in positions for i in every], "bool")
    return _where_written(x, y, axis, constants(call.block, nearest), is_written)


def _along_symbol(call: Call, x: Arranged, y: Arranged, axis: int, start: int | Extent, step: int) -> Arranged:
    """Return x with the elements of y from `start` on along an axis of a symbol; a negative one is from the end."""
    if step != 1:
        raise CompileError(
            f"a write of each {step}th position of an axis with {x.shape[axis]} elements is not imported; import "
            "without that symbol"
        )
    count = y.shape[axis].known()
    first: Any = number_of(call.block, start, "int64") if isinstance(start, Extent) else start
    if isinstance(start, int) and start < 0:
        first = number_of(call.block, x.shape[axis], "int64") + start
    steps = positions_of(call.block, x.shape[axis]) - first
    return _where_written(x, y, axis, ops.clip(steps, 0, count - 1), (steps >= 0) & (steps < count))


def _where_written(x: Arranged, y: Arranged, axis: int, sources: Value, is_written: Value) -> Arranged:
    """Return x with the element of y at the position in `sources` for each written position of an axis."""
    y, [place] = single(y, [axis])
    wide = Arranged(ops.gather(y.value, sources, axis=place), y.axes, x.shape)
    alone = [x.shape[i] if i == axis else ONE for i in range(x.rank)]
    return pointwise(ops.where, viewed(arranged(is_written), alone), *promoted((wide, x), x.dtype))


def _select_scatter(call: Call, x: Arranged, y: Arranged, dim: int, index: int) -> Arranged:
    axis = axis_of(dim, x.rank)
    at = index if x.shape[axis].symbols else index % x.shape[axis].known()
    return _slice_scatter(call, x, unsqueezed(y, axis), axis, at, at + 1)


def _diagonal_scatter(call: Call, x: Arranged, y: Arranged, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Arranged:
    """Return x with the elements of y on a diagonal: the one in column j of axis dim2 is y's at j - max(offset, 0)."""
    rows, columns = axis_of(dim1, x.rank), axis_of(dim2, x.rank)
    order = [i for i in range(x.rank) if i not in (rows, columns)] + [rows, columns]
    height, width, first = x.shape[rows].known(), x.shape[columns].known(), max(offset, 0)
    values = plain(y)
    before = (*[0] * (y.rank - 1), first)
    after = (*[0] * (y.rank - 1), width - first - y.shape[-1].known())
    placed = unsqueezed(arranged(ops.pad(values, before=before, after=after)), y.rank - 1)
    on = ops.eye.on(call.block)(shape=(height, width), offset=offset, dtype="bool")
    moved = permuted(x, order)
    wide = expanded(arranged(on), moved.shape), *promoted((expanded(placed, moved.shape), moved), x.dtype)
    return permuted(pointwise(ops.where, *wide), [order.index(i) for i in range(x.rank)])


def _copy_into(call: Call, x: Arranged, y: Arranged, *rest: Any) -> Arranged:
    [made] = promoted((y,), x.dtype)
    assert isinstance(made, Arranged)
    return expanded(made, x.shape)


OPERATORS: Final[dict[str, Mapping]] = {
    "aten.slice_scatter.default": _slice_scatter,
    "aten.select_scatter.default": _select_scatter,
    "aten.diagonal_scatter.default": _diagonal_scatter,
    "aten.copy.default": _copy_into,
}

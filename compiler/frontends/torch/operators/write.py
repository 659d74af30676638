"""Writes into parts of tensors: slices, single positions, whole tensors."""

# pyright: basic
# PyTorch is imported by name and has no types here, nor have the lambdas of a table.

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from compiler.frontends.arranged import Arranged, arranged, expanded, pointwise, single, unsqueezed, viewed
from compiler.frontends.extents import ONE
from compiler.frontends.pieces import sliced
from compiler.frontends.torch.operators.call import Call, Mapping, axis_of, promoted
from compiler.frontends.torch.operators.shape import cat
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import NUMBERS, DTypeName
from registry import Value, ops


def _slice_scatter(
    call: Call, x: Arranged, y: Arranged, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Arranged:
    axis = axis_of(dim, x.rank)
    if y.shape == x.shape:
        return y
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
    y, [place] = single(y, [axis])
    nearest = [min(max(i - positions.start, 0) // positions.step, len(positions) - 1) for i in every]
    wide = Arranged(ops.gather(y.value, _constant(call, "int64", nearest), axis=place), y.axes, x.shape)
    alone = [x.shape[i] if i == axis else ONE for i in range(x.rank)]
    is_written = viewed(arranged(_constant(call, "bool", [i in positions for i in every])), alone)
    return pointwise(ops.where, is_written, *promoted((wide, x), x.dtype))


def _constant(call: Call, dtype: DTypeName, numbers: Sequence[int]) -> Value:
    data = struct.pack(f"<{len(numbers)}{'?' if dtype == 'bool' else 'q'}", *numbers)
    return ops.constant.on(call.block)(value=pb.SmallTensor(dtype=NUMBERS[dtype], shape=(len(numbers),), data=data))


def _select_scatter(call: Call, x: Arranged, y: Arranged, dim: int, index: int) -> Arranged:
    axis = axis_of(dim, x.rank)
    at = index % x.shape[axis].known()
    return _slice_scatter(call, x, unsqueezed(y, axis), axis, at, at + 1)


def _copy_into(call: Call, x: Arranged, y: Arranged, *rest: Any) -> Arranged:
    [made] = promoted((y,), x.dtype)
    assert isinstance(made, Arranged)
    return expanded(made, x.shape)


OPERATORS: Final[dict[str, Mapping]] = {
    "aten.slice_scatter.default": _slice_scatter,
    "aten.select_scatter.default": _select_scatter,
    "aten.copy.default": _copy_into,
}

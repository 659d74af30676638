"""Rearrangements of elements: transpose, slice, pad, split, concatenate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from math import prod
from typing import Any, Final

from prograd_proto import TensorType
from prograd_proto.dtypes import ITEM_BYTES
from runtime.codegen.kernels.moves import Layout, Move, Strided, move_steps, row_major
from runtime.codegen.kernels.op_types import OpTypes
from runtime.codegen.kernels.registers import bits_of
from runtime.codegen.kernels.steps import KernelSteps
from runtime.codegen.machine import Target
from runtime.codegen.rules.rule import RULES, CustomKernel

Types = Sequence[TensorType]
Sources = Sequence[Layout]
Layers = list[list[Move]]
Ints = tuple[int, ...]
Moves = Callable[..., Layers]
"""A function from the layouts of the operands, the types of results, and the attributes by name."""

ALL_DTYPES: Final = frozenset(ITEM_BYTES)
MAX_MOVES_PER_STEP: Final = 64
"""Upper bound on the boxes that one op moves; a NumPy kernel computes ops with more."""

MOVES: Final[dict[str, Moves]] = {}
"""The moves of ops that only move elements, by operator."""

VIEW_OPS: Final[set[str]] = set()
"""Operators whose results are each one box of the operand's elements, so that a reader can use strides instead."""


def moving(name: str, moves: Moves, *, is_view: bool = False) -> None:
    """Declare the lowering rule of an op that moves elements, or fills with a number.

    Args:
        name: name of the operator.
        moves: function that returns the boxes that the op moves.
        is_view: True if each result is one box of the operand's elements.
    """

    def plan(target: Target, op: OpTypes) -> KernelSteps:
        return moving_steps(target, name, as_they_are(op.inputs), op.outputs, op.attributes)

    def few(op: OpTypes) -> bool:
        return sum(map(len, moves(as_they_are(op.inputs), op.outputs, **op.attributes))) <= MAX_MOVES_PER_STEP

    MOVES[name] = moves
    if is_view:
        VIEW_OPS.add(name)
    RULES[name] = CustomKernel(plan, ALL_DTYPES, few)


def moving_steps(
    target: Target, name: str, inputs: Sources, outputs: Types, attributes: Mapping[str, Any]
) -> KernelSteps:
    """Return the kernel steps of an op that moves elements, for operands of any layout."""
    return move_steps(target, 8 * ITEM_BYTES[outputs[0].dtype], MOVES[name](inputs, outputs, **attributes))


def as_they_are(inputs: Sequence[TensorType | None]) -> list[Layout]:
    """Return the layouts of contiguous operands."""
    return [Layout(x.static_shape, row_major(x.static_shape)) for x in inputs if x is not None]


def transpose(xs: Sources, outputs: Types, *, axes: Ints) -> Layers:
    steps = xs[0].strides
    return [[Move(outputs[0].static_shape, whole(outputs[0]), Strided(0, 0, tuple(steps[axis] for axis in axes)))]]


def slice_(xs: Sources, outputs: Types, *, axes: Ints, starts: Ints, stops: Ints, strides: Ints) -> Layers:
    window = _window(xs[0].strides, axes, starts, strides)
    return [[Move(outputs[0].static_shape, whole(outputs[0]), window)]]


def unslice(xs: Sources, outputs: Types, *, shape: Any, axes: Ints, starts: Ints, stops: Ints, strides: Ints) -> Layers:
    x, y = xs[0].shape, outputs[0].static_shape
    copy = Move(x, _window(row_major(y), axes, starts, strides), Strided(0, 0, xs[0].strides))
    if any(stride != 1 for stride in strides):
        return [[Move(y, whole(outputs[0]), 0)], [copy]]
    before = dict(zip(axes, starts, strict=True))
    return [[*_around(y, [before.get(axis, 0) for axis in range(len(y))], x, 0), copy]]


def pad(xs: Sources, outputs: Types, *, before: Ints, after: Ints, value: float) -> Layers:
    x, y = xs[0].shape, outputs[0].static_shape
    steps = row_major(y)
    copy = Move(x, Strided(0, moved(before, steps), steps), Strided(0, 0, xs[0].strides))
    return [[*_around(y, before, x, bits_of(value, outputs[0].dtype)), copy]]


def split(xs: Sources, outputs: Types, *, sizes: Ints, axis: int) -> Layers:
    steps = xs[0].strides
    starts = accumulate(sizes, initial=0)
    parts = [
        Move(y.static_shape, Strided(i, 0, row_major(y.static_shape)), Strided(0, start * steps[axis], steps))
        for i, (y, start) in enumerate(zip(outputs, starts, strict=False))
    ]
    return [parts]


def concat(xs: Sources, outputs: Types, *, axis: int) -> Layers:
    steps = row_major(outputs[0].static_shape)
    starts = accumulate((x.shape[axis] for x in xs), initial=0)
    parts = [
        Move(x.shape, Strided(0, start * steps[axis], steps), Strided(i, 0, x.strides))
        for i, (x, start) in enumerate(zip(xs, starts, strict=False))
    ]
    return [parts]


def whole(type: TensorType) -> Strided:
    """Return the layout of the whole first result as a destination."""
    return Strided(0, 0, row_major(type.static_shape))


def moved(at: Iterable[int], steps: Iterable[int]) -> int:
    """Return the offset of an element, from the first one, by its index along each axis."""
    return sum(i * step for i, step in zip(at, steps, strict=True))


def _window(whole: Ints, axes: Ints, starts: Ints, strides: Ints) -> Strided:
    """Return a slice of a tensor with these strides."""
    steps = [*whole]
    offset = sum(start * steps[axis] for axis, start in zip(axes, starts, strict=True))
    for axis, stride in zip(axes, strides, strict=True):
        steps[axis] *= stride
    return Strided(0, offset, tuple(steps))


def _around(shape: Ints, before: Sequence[int], inner: Ints, bits: int) -> list[Move]:
    """Return the surroundings of a box as boxes: before and after it along every axis.

    Boxes before and after it along an axis are as wide as it along earlier axes, so that none overlap.
    """
    steps, boxes = row_major(shape), list[Move]()
    for axis, (start, extent) in enumerate(zip(before, inner, strict=True)):
        for first, stop in ((0, start), (start + extent, shape[axis])):
            at = [*before[:axis], first, *[0] * (len(shape) - axis - 1)]
            extents = (*inner[:axis], stop - first, *shape[axis + 1 :])
            if prod(extents):
                boxes.append(Move(extents, Strided(0, moved(at, steps), steps), bits))
    return boxes


moving("transpose", transpose, is_view=True)
moving("slice", slice_, is_view=True)
moving("unslice", unslice)
moving("pad", pad)
moving("split", split, is_view=True)
moving("concat", concat)

"""One move as loops, in one of three ways.

Lines: both sides are contiguous along the last axis; vectors, and smaller ones at the end of a line. Squares: the
source is contiguous along another axis. Its vectors are transposed in registers, as many as each has lanes. At the end
of an axis, the last square begins earlier and writes only the missing elements. Elements: neither.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final, NamedTuple

from runtime.codegen.costs import COPIED_BYTE_CYCLES, COPIED_LINE_CYCLES, GATHERED_ELEMENT_CYCLES, TRANSPOSED_ROW_CYCLES
from runtime.codegen.ir import Index, Type, Value
from runtime.codegen.ir.words import transposed
from runtime.codegen.kernels.moves.line import line, power_below
from runtime.codegen.kernels.moves.move import Move, Strided
from runtime.codegen.kernels.nest import leading, offset_of, over, spread
from runtime.codegen.kernels.steps import KernelContext
from runtime.codegen.machine import Target

PIECE_BYTES: Final = 4096
"""Size of a piece of a line that several work items share; a multiple of every vector."""

WANTED_ITEMS: Final = 32
"""Number of work items that gives every thread a share."""

MAX_SQUARE_SIDE: Final = 16
"""Upper bound on the side of a square: its vectors, before and after transposition, must stay in registers."""


class PlannedMove(NamedTuple):
    """A move that is ready to be written.

    Attributes:
        work_items: extents of the axes whose positions are work items.
        cost: cycles of all work items.
        write: the loop over work items.
    """

    work_items: tuple[int, ...]
    cost: float
    write: Callable[[KernelContext, Index, Index], None]


def written(target: Target, bits: int, move: Move) -> PlannedMove:
    """Return the way to write a move of elements of `bits` bits."""
    element = Type("unsigned", bits)
    lanes, elements = target.vector_bytes * 8 // bits, prod(move.extents)
    if not move.extents or move.to.strides[-1] != 1:
        return _spread(
            move.extents, elements * GATHERED_ELEMENT_CYCLES, lambda context: _Elements(context, element, move).write
        )
    if not isinstance(move.source, Strided) or move.source.strides[-1] in (0, 1):
        return _lines(move, element, lanes)
    beside = [axis for axis, step in enumerate(move.source.strides) if step == 1 and move.extents[axis] > 1]
    side = power_below(min(lanes, MAX_SQUARE_SIDE, move.extents[-1], *(move.extents[axis] for axis in beside[-1:])))
    if not beside or side < 2:
        return _spread(
            move.extents, elements * GATHERED_ELEMENT_CYCLES, lambda context: _Elements(context, element, move).write
        )
    axis = beside[-1]
    extents = [*move.extents[:-1]]
    extents[axis] = -(-extents[axis] // side)
    return _spread(
        extents,
        elements * TRANSPOSED_ROW_CYCLES / side,
        lambda context: _Squares(context, element, move, axis, side).write,
    )


def _lines(move: Move, element: Type, lanes: int) -> PlannedMove:
    """Return a move by lines; if there are few lines, pieces of them are work items."""
    length, lines = move.extents[-1], prod(move.extents[:-1])
    cost = lines * (length * element.bits / 8 * COPIED_BYTE_CYCLES + COPIED_LINE_CYCLES)
    piece = PIECE_BYTES * 8 // element.bits
    pieces = -(-length // piece) if lines < WANTED_ITEMS else 1
    size = length if pieces == 1 else piece
    return _spread(
        [*move.extents[:-1], pieces], cost, lambda context: _Lines(context, element, move, lanes, size).write
    )


def _spread(
    extents: Sequence[int], cost: float, writer: Callable[[KernelContext], Callable[[list[Index]], None]]
) -> PlannedMove:
    """Return a move whose work items are positions of the first axes; loops inside write the rest."""
    count = leading(extents, WANTED_ITEMS)

    def write(context: KernelContext, start: Index, stop: Index) -> None:
        index = writer(context)
        spread(context.f, extents[:count], start, stop, lambda at: over(context.f, extents[count:], index, at))

    return PlannedMove(tuple(extents[:count]), cost, write)


class _Elements:
    """A move element by element."""

    def __init__(self, context: KernelContext, element: Type, move: Move) -> None:
        self.f, self.element, self.move = context.f, element, move
        self.target = context.f.cast(context.outputs[move.to.number], element) + move.to.offset
        self.source = _source(context, element, move)

    def write(self, at: list[Index]) -> None:
        move = self.move
        x = self._fill(0) if self.source is None else self.f.load(self.source, offset_of(at, _steps(move)))
        self.f.store(x, self.target, offset_of(at, move.to.strides))

    def _fill(self, lanes: int) -> Value:
        assert isinstance(self.move.source, int), "what has no source is filled with a number"
        return self.f.constant(self.element.of(lanes), self.move.source)


class _Lines(_Elements):
    """A move by lines, or pieces of them: the last index is the number of the piece."""

    def __init__(self, context: KernelContext, element: Type, move: Move, lanes: int, size: int) -> None:
        super().__init__(context, element, move)
        self.lanes, self.size = lanes, size

    def write(self, at: list[Index]) -> None:
        *around, piece = at
        length = self.move.extents[-1]
        whole, rest = divmod(length, self.size)
        if isinstance(piece, int) or not rest:
            self._piece(around, piece * self.size, self.size)
            return
        is_whole = piece < whole
        with self.f.when(is_whole):
            self._piece(around, piece * self.size, self.size)
        with self.f.when(~is_whole):
            self._piece(around, whole * self.size, rest)

    def _piece(self, around: Sequence[Index], first: Index, count: int) -> None:
        target = self.target + offset_of([*around, first], self.move.to.strides)
        source = None if self.source is None else self.source + offset_of([*around, first], _steps(self.move))
        known = self._known(source)
        for i, lanes in line(self.f, count, self.lanes):
            if known is not None:
                x = self.f.splat(known, lanes) if lanes else known
            else:
                assert source is not None, "what has none is filled"
                x = self.f.load(source, i, lanes)
            self.f.store(x, target, i)

    def _known(self, source: Value | None) -> Value | None:
        """Return the value that fills the whole line, if it is one number."""
        if source is None:
            return self._fill(0)
        return None if _steps(self.move)[-1] else self.f.load(source)


class _Squares(_Elements):
    """A move by squares along the last axis; the index of the other axis is the number of a row of squares."""

    def __init__(self, context: KernelContext, element: Type, move: Move, axis: int, side: int) -> None:
        super().__init__(context, element, move)
        self.axis, self.side = axis, side

    def write(self, at: list[Index]) -> None:
        whole, rest = divmod(self.move.extents[self.axis], self.side)
        row = at[self.axis]
        if not rest:
            self._row(at, row * self.side, 0)
        elif isinstance(row, int):
            self._ends(at, row, whole, rest)
        else:
            is_whole = row < whole
            with self.f.when(is_whole):
                self._row(at, row * self.side, 0)
            with self.f.when(~is_whole):
                self._row(at, whole * self.side + rest - self.side, self.side - rest)

    def _ends(self, at: list[Index], row: int, whole: int, rest: int) -> None:
        if row < whole:
            self._row(at, row * self.side, 0)
        else:
            self._row(at, whole * self.side + rest - self.side, self.side - rest)

    def _row(self, at: list[Index], first: Index, skipped: int) -> None:
        """Write neighbouring squares; the first `skipped` columns of the source of each are already written."""
        at = [*at]
        at[self.axis] = first
        length = self.move.extents[-1]
        whole = length // self.side * self.side
        for j in self.f.range(0, whole, self.side):
            self._square([*at, j], skipped)
        if whole < length:
            self._square([*at, length - self.side], skipped)

    def _square(self, at: list[Index], skipped: int) -> None:
        here, there = _steps(self.move), self.move.to.strides
        assert self.source is not None, "what has none is filled line by line"
        source, target = self.source + offset_of(at, here), self.target + offset_of(at, there)
        columns = [self.f.load(source, i * here[-1], self.side) for i in range(self.side)]
        for i, row in enumerate(transposed(columns)):
            if i >= skipped:
                self.f.store(row, target, i * there[self.axis])


def _source(context: KernelContext, element: Type, move: Move) -> Value | None:
    if not isinstance(move.source, Strided):
        return None
    address = context.operand(move.source.number)
    return context.f.cast(address, element) + move.source.offset


def _steps(move: Move) -> tuple[int, ...]:
    return move.source.strides if isinstance(move.source, Strided) else (0,) * len(move.extents)

"""The contract of a kernel: kernel steps, one after the other, each with work items that threads compute in any order.

    def planned(target, op):
        def rows(context: KernelContext, start: Value, stop: Value) -> None:
            for row in context.f.range(start, stop):
                ...                                     # from context.inputs to context.outputs
        return KernelSteps((KernelStep(rows, work_items=op.operand(0).static_shape[0], cost=...),))

A work item writes no bytes that another item of its step reads or writes, so no result depends on which thread computes
it. A step begins when all work items of the step before are done. Shared scratch holds results for later steps; scratch
of the thread holds intermediate results of an item.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import gcd
from typing import NamedTuple

from runtime.codegen.ir import Function, Index, Type, Value
from runtime.codegen.ir.halves import widened

FinishVector = Callable[[Value, Index, Index, int], None]
"""Takes a finished vector of channels: its pixel number, its first channel, and the number of lanes that count.

It may get a vector twice, if both are the same.
"""


Read = Callable[[Index, Index, int, int], Value]
"""Computes a vector along a row, from the row, the first column, the lanes (0 for one element) and how many count."""


class ComputedOperand(NamedTuple):
    """The producer slot of a kernel: an operand that is not in memory and is computed where the kernel packs it.

    The operand is a tensor seen as a matrix: its last axis, such as channels, is the columns; all other axes, such as
    pixels or rows of a batch, are the rows.

    Attributes:
        read: computes a vector of it.
        operands: the addresses of tensors of the same shape that it is computed from.
        streams: those of them that come from far, so that they are prefetched.
        first: the row at which it begins.
        few_rows: prepares rows, from the first one and their number, and returns what computes vectors of them.
    """

    read: Read
    operands: Sequence[Value]
    streams: Sequence[Value] = ()
    first: Index = 0
    few_rows: Callable[[Index, int], Read] | None = None

    def onward(self, rows: Index) -> ComputedOperand:
        """Return the operand that begins `rows` rows further on."""
        return self._replace(first=self.first + rows)

    def prepared(self, row: Index, count: int) -> ComputedOperand:
        """Return the operand for only `count` rows, from this one on."""
        return self if self.few_rows is None else self._replace(read=self.few_rows(self.first + row, count))

    def widened(self) -> ComputedOperand:
        """Return the same operand of bfloat16 as float32."""
        return self._replace(read=_widened(self.read), few_rows=_all_widened(self.few_rows))


def _widened(read: Read) -> Read:
    return lambda row, column, lanes, count: widened(read(row, column, lanes, count))


def _all_widened(prepare: Callable[[Index, int], Read] | None) -> Callable[[Index, int], Read] | None:
    def prepared(row: Index, count: int) -> Read:
        assert prepare is not None, "there is something to prepare"
        return _widened(prepare(row, count))

    return None if prepare is None else prepared


class KernelContext(NamedTuple):
    """The arguments of the function that writes a kernel step.

    Attributes:
        f: the function under construction.
        inputs: addresses of the operands, None for absent ones.
        outputs: addresses of the results.
        shared_scratch: function from a number and a type to the address of that shared scratch.
        thread_scratch: likewise for scratch of the thread.
        addresses: addresses of all tensors of the group by name.
        fail_check: function that writes that a runtime check failed; see `KernelSteps.has_runtime_check`.
        finish: function that takes the result instead of memory, if an epilogue follows; see `FinishVector`.
        computed_operand: the first operand, if the kernel computes it where it packs it.
        stream: the number of the op's random stream, if its rule is random.
    """

    f: Function
    inputs: Sequence[Value | None]
    outputs: Sequence[Value]
    shared_scratch: Callable[[int, Type], Value]
    thread_scratch: Callable[[int, Type], Value]
    addresses: Mapping[str, Value]
    fail_check: Callable[[], None]
    finish: FinishVector | None = None
    computed_operand: ComputedOperand | None = None
    stream: Value | None = None

    def operand(self, number: int) -> Value:
        """Return the address of an operand that the op has."""
        x = self.inputs[number]
        assert x is not None, f"operand {number} is not optional"
        return x


Write = Callable[[KernelContext, Value, Value], None]
"""Writes the loop over work items, from the first to before the last."""


class RowTiles(NamedTuple):
    """The work items of a step, if they are equal row tiles in order.

    Attributes:
        parts: number of row tiles; each may consist of several work items.
        rows: rows of all tiles together: the first axis of the tensors that they read and write.
        reads: positions in the group's table of tensors of which a tile reads its own rows only.
        runs: number of equal ranges of row tiles, each of which one thread computes in order.
    """

    parts: int
    rows: int
    reads: frozenset[int]
    runs: int


class BatchParts(NamedTuple):
    """The work items of a custom kernel's step, if they are equal parts of the images of a batch, in order.

    Attributes:
        parts: number of parts; each may consist of several work items.
        images: images of all parts together: the first axis of the operands and of the result.
        reads: the op's operands, by number, of which a part reads its own images only.
        runs: number of equal ranges of parts, each of which one thread computes in order.
    """

    parts: int
    images: int
    reads: frozenset[int]
    runs: int


def batch_parts(parts: int, images: int, *reads: int, in_order: int = 1) -> BatchParts | None:
    """Return as many equal parts of the images as the work items of a step allow, which are `parts` equal parts.

    `reads` are the operands of which a part reads its own images only. One thread computes `in_order` successive parts
    in order. Return None if there is one part.
    """
    together = gcd(parts, images)
    runs = gcd(parts // in_order, together)
    return BatchParts(together, images, frozenset(reads), runs) if together > 1 else None


class Prepack(NamedTuple):
    """The operands and scratch of a step that only reads whole operands, such as weights; its results may be cached.

    If these operands are the same in successive steps, as states are between predictions, the step runs once. It uses
    no scratch of the thread.

    Attributes:
        reads: its operands, by number.
        writes: the shared scratch, by number, that it alone writes, completely.
    """

    reads: tuple[int, ...]
    writes: tuple[int, ...]


class KernelStep(NamedTuple):
    """A part of a kernel whose work items all threads share.

    Attributes:
        write: function that writes the loop; steps with the same function share its code and differ by their first
            item.
        work_items: number of work items.
        cost: cycles of all work items on one thread, as `runtime.codegen.costs` prices them.
        first: number of the first work item.
        row_tiles: the row tiles, if its work items are row tiles that write their own rows only.
        batch_parts: the parts of the images, if its work items are such parts; `emit` makes row tiles of them.
        prepack: operands and scratch, if it only prepares whole operands for the other steps.
        prefers_ranges: True if successive work items take less time than the same number of others, so that each thread
            should get one range of them.
        in_order: number of successive work items that one thread computes in order, because they add to the same sums;
            it divides `work_items`.
    """

    write: Write
    work_items: int
    cost: float
    first: int = 0
    row_tiles: RowTiles | None = None
    batch_parts: BatchParts | None = None
    prepack: Prepack | None = None
    prefers_ranges: bool = False
    in_order: int = 1


class KernelSteps(NamedTuple):
    """The whole computation of a group.

    Attributes:
        steps: kernel steps, in order.
        shared_scratch: bytes of each scratch that all threads share.
        thread_scratch: bytes of each scratch that every thread has for itself.
        has_runtime_check: True if it may find data that the op refuses, such as an index out of range. It then reads
            and writes nothing by that index, and may go on or not; the step ends after this phase, and the reference
            kernels of the group report the error.
        reads_row_halves: True if threads read halves of each row of the group's first operand.
        prepacked: steps before the others, which run only when states have changed.
        packed: scratch that these write, by number, shared scratch first: it is kept between steps.
    """

    steps: tuple[KernelStep, ...]
    shared_scratch: tuple[int, ...] = ()
    thread_scratch: tuple[int, ...] = ()
    has_runtime_check: bool = False
    reads_row_halves: bool = False
    prepacked: tuple[KernelStep, ...] = ()
    packed: frozenset[int] = frozenset()

    @property
    def all(self) -> tuple[KernelStep, ...]:
        """All kernel steps, in the order in which their functions are numbered."""
        return (*self.prepacked, *self.steps)

    @property
    def tiled(self) -> int | None:
        """The position of the step whose work items are row tiles; steps before it only prepare whole operands."""
        for number, step in enumerate(self.steps):
            if step.row_tiles is not None:
                return number
            if step.prepack is None:
                return None
        return None

    @property
    def is_prepacked(self) -> bool:
        """True if all kernel steps are prepacked."""
        return bool(self.prepacked) and not self.steps

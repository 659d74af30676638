"""How a form's work is divided: stages one after the other, each of units that any threads do in any order.

    def planned(target, inputs, outputs, attributes):
        def rows(work: Work, start: Value, stop: Value) -> None:
            for row in work.f.range(start, stop):
                ...                                     # of work.inputs into work.outputs
        return Stages((Stage(rows, units=inputs[0].static_shape[0], cost=...),))

A unit writes what no other unit of its stage reads or writes, so no result depends on who does it. A stage begins when
all units of the one before are done. What one unit leaves for another stage lies in shared scratch; what it needs for
itself in scratch of its thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from runtime.codegen.ir import Function, Index, Type, Value

FinishVector = Callable[[Value, Index, Index, int], None]
"""Takes a finished vector of channels: the number of its place, its first channel, and how many lanes count. It may be
given a vector twice, if it is the same."""


Read = Callable[[Index, Index, int], Value]
"""Gives a vector of channels: of the pixel of this number, from this channel on, so many."""


class ComputedOperand(NamedTuple):
    """An operand of channels last that is not in memory, but made where it is copied.

    Attributes:
        read: makes a vector of it.
        operands: the addresses of what it is made of that is as large.
        first: the number of its first pixel.
    """

    read: Read
    operands: Sequence[Value]
    first: Index = 0

    def onward(self, pixels: Index) -> ComputedOperand:
        """So many pixels further."""
        return self._replace(first=self.first + pixels)


class Work(NamedTuple):
    """What a stage is written with.

    Attributes:
        f: the function.
        inputs: the addresses of the operands, None for absent ones.
        outputs: the addresses of the results.
        shared_scratch: the address of shared scratch by number, as elements of a type.
        thread_scratch: likewise of the thread's own scratch.
        addresses: the addresses of all tensors of the group by name.
        fail_check: writes that something was found which the op refuses; see `KernelSteps.refuses`.
        finish: what becomes of the result instead of being written, if there is something; see `FinishVector`.
        computed_operand: the first operand, if it is made where it is copied.
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


Write = Callable[[Work, Value, Value], None]
"""Writes the loop over units, from a first to before a last one."""


class RowTiles(NamedTuple):
    """Units that are equal strips of rows, in order.

    Attributes:
        parts: how many; there may be several units in each.
        rows: of all strips together: the first axis of what they read and write.
        reads: places in the group's table of what a strip reads its own rows of, and no others.
    """

    parts: int
    rows: int
    reads: frozenset[int]


class Prepack(NamedTuple):
    """What a stage touches that reads whole operands, such as weights, and nothing else: it may be kept.

    Where these operands are the same from step to step, as states are between predictions, it is made once. It uses no
    scratch of its thread.

    Attributes:
        reads: its operands, by number.
        writes: the shared scratch, by number, that it writes, all of it, and no other stage does.
    """

    reads: tuple[int, ...]
    writes: tuple[int, ...]


class KernelStep(NamedTuple):
    """Work that is done by as many threads as there are.

    Attributes:
        write: once for all stages that share it, which then differ by their first unit.
        work_items: how many.
        cost: cycles of all units together, on one thread, as `runtime.codegen.costs` prices them.
        first: the number of the first unit.
        row_tiles: if its units are strips of rows, which also write their own rows only.
        prepack: if it prepares whole operands for the other stages, and does nothing else.
        prefers_ranges: whether units one after the other take less time than each by itself, so that a thread gets one
            stretch
            of them.
    """

    write: Write
    work_items: int
    cost: float
    first: int = 0
    row_tiles: RowTiles | None = None
    prepack: Prepack | None = None
    prefers_ranges: bool = False


class KernelSteps(NamedTuple):
    """All that a group does.

    Attributes:
        steps: in order.
        shared_scratch: bytes of each scratch that all threads share.
        thread_scratch: bytes of each scratch that every thread has for itself.
        has_runtime_check: whether it may find a number that the op refuses, such as an index of no row. It then touches
            nothing
            by that number, and goes on or not as it likes; the step ends after this phase, and the reference kernels
            of the group say what is wrong.
        reads_row_halves: whether threads read halves of each row of the group's first operand.
        prepacked: stages before the others, which are made only when states have changed.
        packed: the scratch that these write, by number, shared scratch first: it is kept from step to step.
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
        """In the order in which their functions are numbered."""
        return (*self.prepacked, *self.steps)

    @property
    def is_prepacked(self) -> bool:
        """Whether nothing is left to do in a step."""
        return bool(self.prepacked) and not self.steps

"""A step with recomputed ops and spilled values: its graph, its order, its live bytes; and single changes of it.

The numbers of the block's ops and values do not change. Repeated ops and copies of values have numbers behind them. A
spill defines a copy of a value in the file, which takes no bytes of the arena; a reload defines a copy in the arena
again. Nothing is written to the block: see `write_timeline`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, NamedTuple

from compiler.analyses.step_graph import StepGraph

SPILL: Final = -1
"""Marker, in place of an op of the block, for the copy of a value to the file once it is defined."""

RELOAD: Final = -2
"""Marker, in place of an op of the block, for the copy of a value back from the file."""

OPERATIONS_PER_MOVED_BYTE: Final = 8
"""Operations per byte spilled or reloaded: 1 GB/s of storage at 8 billion operations a second."""


@dataclass(frozen=True)
class Timeline:
    """A graph with ops that repeat earlier ones or move values, and the order in which they run."""

    graph: StepGraph
    order: list[int]
    ops: list[int]  # for each op, the op of the block that it is or repeats, else SPILL or RELOAD
    values: list[int]  # for each value, the value of the block with its bits; for a spilled one, itself
    made_by: list[int]  # for each value, the op that writes it, -1 if it exists at the start
    spilled: dict[int, int] = field(default_factory=dict[int, int])  # spilled copy by value of the block

    @cached_property
    def live(self) -> list[int]:
        """The bytes that are needed while each op runs, in their order."""
        return list(self.graph.live(self.order))

    @cached_property
    def peak(self) -> int:
        """The most bytes that are needed at once."""
        return max(self.live, default=0)

    @cached_property
    def position(self) -> dict[int, int]:
        """The position of each op in the order; -1, for values that exist at the start, is before it."""
        return {i: at for at, i in enumerate(self.order)} | {-1: -1}

    @cached_property
    def copies(self) -> list[list[int]]:
        """The copies of each value of the block, itself included, as far as they are computed."""
        found: list[list[int]] = [[] for _ in self.values]  # a spilled value stands for itself
        for value, original in enumerate(self.values):
            if self.made_by[value] in self.position:
                found[original].append(value)
        return found

    def cost(self, costs: Sequence[int]) -> int:
        """Return the operations of the step, given those of each op of the block, and of moved bytes."""
        return sum(
            costs[self.ops[i]] if self.ops[i] >= 0 else OPERATIONS_PER_MOVED_BYTE * self.moved(i) for i in self.order
        )

    @property
    def has_repetitions(self) -> bool:
        """True if an op of the block runs twice, or a value is moved."""
        return len(self.order) > len(self.graph.before)

    def may_repeat(self, value: int) -> bool:
        """Return True if a value of the block may be recomputed: an op without effects computes it."""
        return self.made_by[value] != -1 and self.made_by[value] not in self.graph.once

    def moved(self, i: int) -> int:
        """Return the bytes that a spill or a reload copies."""
        [value] = self.graph.reads[i] if self.ops[i] == SPILL else self.graph.writes[i]
        return self.graph.nbytes[value]


class Choice(NamedTuple):
    """Recompute or reload `value`, of the block, right before the op that runs at `position`."""

    value: int
    position: int  # len(order) is the end of the step
    kept: float = 0.0  # keep operands of at most this multiple of the value's bytes, and recompute larger ones
    merge: bool = False  # True: drop later repetitions and read from here


def timeline_of(graph: StepGraph) -> Timeline:
    """Return the timeline of a block without repetitions, in its own order."""
    made_by = [-1] * len(graph.nbytes)
    for i, written in enumerate(graph.writes):
        for value in written:
            made_by[value] = i
    numbers = list(range(len(graph.reads)))
    return Timeline(graph, numbers, numbers, list(range(len(graph.nbytes))), made_by)


def repeat(timeline: Timeline, choice: Choice) -> Timeline:
    """Return the timeline with the value recomputed; the input is not modified."""
    chosen, source = _closure(timeline, choice)
    edit = _Edit(timeline, choice.position)
    edit.insert(chosen, source)
    edit.redirect(chosen, merge=choice.merge)
    return edit.done()


def repeat_unit(timeline: Timeline, chosen: Sequence[int], at: int) -> Timeline:
    """Return the timeline with ops repeated before a position; readers from there on read the copies.

    Args:
        timeline: the input, which is not modified; the ops of the unit are not repeated in it.
        chosen: the ops, in order.
        at: the position.
    """
    edit = _Edit(timeline, at)
    edit.insert(chosen, {timeline.values[read]: read for op in chosen for read in timeline.graph.reads[op]})
    edit.redirect(chosen, merge=False)
    return edit.done()


def spill(timeline: Timeline, choice: Choice) -> Timeline:
    """Return the timeline with the value in the file until the position; the input is not modified."""
    slot = timeline.spilled.get(choice.value)
    if slot is not None and timeline.position[timeline.made_by[slot]] >= choice.position:
        return timeline  # a later copy was spilled
    edit = _Edit(timeline, choice.position)
    edit.move(choice.value)
    return edit.done()


def _closure(timeline: Timeline, choice: Choice) -> tuple[list[int], dict[int, int]]:
    """Return the ops of the block to repeat, in order, and the copies of other values that these ops read."""
    graph, position = timeline.graph, timeline.position
    source: dict[int, int] = {}
    chosen: set[int] = set()
    waiting = [timeline.made_by[choice.value]]
    while waiting:
        op = waiting.pop()
        if op in chosen:
            continue
        chosen.add(op)
        for value in (timeline.values[read] for read in graph.reads[op]):
            copies = [copy for copy in timeline.copies[value] if position[timeline.made_by[copy]] < choice.position]
            there = [copy for copy in copies if _is_kept(timeline, copy, choice.position)]
            is_small = graph.nbytes[value] <= choice.kept * graph.nbytes[choice.value]
            if there or not timeline.may_repeat(value) or (copies and is_small):
                source[value] = max(there or copies, key=lambda copy: position[timeline.made_by[copy]])
            else:
                waiting.append(timeline.made_by[value])
    return sorted(chosen), source


def _is_kept(timeline: Timeline, value: int, at: int) -> bool:
    graph = timeline.graph
    if graph.lasts[value] or not graph.nbytes[value]:
        return True
    return any(timeline.position[i] >= at for i in graph.readers[value])


class _Edit:
    """A copy of a timeline, while ops are inserted before a position."""

    def __init__(self, timeline: Timeline, at: int) -> None:
        old = timeline.graph
        self._old = timeline
        self._at = at
        self._graph = replace(
            old,
            nbytes=list(old.nbytes),
            readers=list(old.readers),
            lasts=list(old.lasts),
            reads=list(old.reads),
            writes=list(old.writes),
            over=list(old.over),
            scratch=list(old.scratch),
        )
        self._ops, self._values, self._made_by = list(timeline.ops), list(timeline.values), list(timeline.made_by)
        self._spilled = dict(timeline.spilled)
        self._order = [*timeline.order[:at]]  # and inserted ops
        self._new_of: dict[int, int] = {}  # value of the block -> the copy that is computed here
        self._left: list[int] = []  # values that have lost a reader

    def insert(self, chosen: Sequence[int], source: Mapping[int, int]) -> None:
        """Repeat ops of the block, which read values computed here or else the copies of `source`."""
        graph, values = self._graph, self._old.values
        for op in chosen:
            now = {value: self._here(value, source) for value in (values[read] for read in graph.reads[op])}
            clone = self._add(op, list(now.values()), graph.scratch[op])
            graph.writes.append([self._copy(value, clone) for value in graph.writes[op]])
            graph.over.append([(self._new_of[written], now[values[read]]) for written, read in graph.over[op]])
            self._order.append(clone)

    def redirect(self, chosen: Sequence[int], *, merge: bool) -> None:
        """Let the ops from the position on read the copies that are computed here."""
        graph, position = self._graph, self._old.position
        for value in [value for op in chosen for value in graph.writes[op]]:
            for copy in self._old.copies[value]:
                is_made_later = position[self._old.made_by[copy]] >= self._at
                if graph.lasts[copy] or (is_made_later and not merge):
                    continue
                for reader in graph.readers[copy]:
                    if position.get(reader, -1) >= self._at:
                        self._read_instead(reader, copy, self._new_of[value])

    def move(self, value: int) -> None:
        """Spill a value of the block once it is defined, and reload it at the position."""
        graph, position, made_by = self._graph, self._old.position, self._old.made_by
        copies = [copy for copy in self._old.copies[value] if position[made_by[copy]] < self._at]
        if value not in self._spilled:
            self._spill(value, min(copies, key=lambda copy: position[made_by[copy]]))
        reload = self._add(RELOAD, [self._spilled[value]])
        graph.writes.append([self._copy(value, reload)])
        graph.over.append([])
        self._order.append(reload)
        for copy in copies:
            for reader in [i for i in graph.readers[copy] if position.get(i, -1) >= self._at]:
                self._read_instead(reader, copy, self._new_of[value])
            if graph.lasts[copy]:
                graph.lasts[copy], graph.lasts[self._new_of[value]] = False, True
                self._left.append(copy)

    def done(self) -> Timeline:
        """Return the timeline, without ops whose results nothing reads any more."""
        graph, old = self._graph, self._old
        dead: set[int] = set()
        while self._left:
            i = self._made_by[self._left.pop()]
            if i == -1 or i in dead or any(graph.readers[value] or graph.lasts[value] for value in graph.writes[i]):
                continue
            dead.add(i)
            for value in graph.reads[i]:
                graph.readers[value] = [reader for reader in graph.readers[value] if reader != i]
                self._left.append(value)
        order = [i for i in (*self._order, *old.order[self._at :]) if i not in dead]
        spilled = {value: slot for value, slot in self._spilled.items() if self._made_by[slot] not in dead}
        return Timeline(graph, order, self._ops, self._values, self._made_by, spilled)

    def _spill(self, value: int, copy: int) -> None:
        graph, slot, maker = self._graph, len(self._values), self._made_by[copy]
        spill = self._add(SPILL, [copy])
        graph.writes.append([slot])
        graph.over.append([])
        self._values.append(slot)
        self._made_by.append(spill)
        graph.nbytes.append(0)
        graph.readers.append([])
        graph.lasts.append(False)
        self._spilled[value] = slot
        self._order.insert(self._old.position[maker] + 1, spill)

    def _add(self, op: int, reads: list[int], scratch: int = 0) -> int:
        """Add an op that repeats one of the block or moves a value, without its writes, and return its number."""
        graph, number = self._graph, len(self._ops)
        self._ops.append(op)
        graph.reads.append(reads)
        graph.scratch.append(scratch)
        for value in reads:
            graph.readers[value] = [*graph.readers[value], number]
        return number

    def _here(self, value: int, source: Mapping[int, int]) -> int:
        return self._new_of[value] if value in self._new_of else source[value]

    def _copy(self, value: int, clone: int) -> int:
        graph = self._graph
        self._new_of[value] = len(self._values)
        self._values.append(value)
        self._made_by.append(clone)
        graph.nbytes.append(graph.nbytes[value])
        graph.readers.append([])
        graph.lasts.append(False)
        return self._new_of[value]

    def _read_instead(self, reader: int, old: int, new: int) -> None:
        graph = self._graph
        graph.reads[reader] = [new if value == old else value for value in graph.reads[reader]]
        graph.over[reader] = [(written, new if read == old else read) for written, read in graph.over[reader]]
        graph.readers[old] = [i for i in graph.readers[old] if i != reader]
        self._left.append(old)
        graph.readers[new] = [*graph.readers[new], reader]

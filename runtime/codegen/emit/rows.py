"""Groups that go over rows: a row is read, what is joined of it is used in it, and it is written, while it is near.

Where a row is a few vectors, all that is made of it stays in registers from pass to pass. A longer one is read again,
and what is dear to make again waits in the thread's own memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Final, NamedTuple

from runtime.codegen.emit.body import Body, counted
from runtime.codegen.emit.reductions import Joined, blocks_of, joined_by, kept_steps, last_alone
from runtime.codegen.emit.row_passes import Pass, passes_of
from runtime.codegen.emit.strips import strips_of_places
from runtime.codegen.ir import DTYPES, UINT8, Index, Type, Value
from runtime.codegen.ir.words import across, convert, first, where
from runtime.codegen.kernels.nest import Nest, moved, nest, row_major, unravelled
from runtime.codegen.kernels.reduction import Joining, by_pairs, down_rows, in_lanes
from runtime.codegen.lowering.nodes import Node
from runtime.codegen.lowering.task import Task
from runtime.codegen.machine import Target
from runtime.codegen.rules import Reduction, Stage, Stages, Work, in_memory, in_register
from runtime.placement.alignment import aligned

NANOSECONDS: Final = 0.1
"""For an element of a node: a guess."""

WIDEST: Final = 8
"""Bytes of an element."""

SHARE: Final = 4
"""A row whose vectors are at most this part of the registers stays in them."""


class Shape(NamedTuple):
    """How a group goes over rows.

    Attributes:
        loops: over the domain.
        rows, columns: its axes.
        lanes: of vectors: as many as of what is joined fill a register.
        unrolled: whether a row stays in registers.
        passes: over a row.
    """

    loops: Nest
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    lanes: int
    unrolled: bool
    passes: list[Pass]

    @property
    def length(self) -> int:
        """Elements of a row."""
        return prod(self.loops.extents[axis] for axis in self.columns)


def row_stages(target: Target, task: Task) -> Stages:
    """One stage: a unit is a row."""
    shape = shape_of(target, task)

    def write(work: Work, start: Value, stop: Value) -> None:
        rows = _Rows(work, task, shape)
        for row in work.f.range(start, stop):
            rows.row(unravelled(work.f, row, [shape.loops.extents[axis] for axis in shape.rows]))

    cost = prod(task.group.domain) * (4 + len(task.group.nodes)) * NANOSECONDS
    kept = {name for one in shape.passes for name in one.kept}
    room = len(kept) * aligned(shape.length * WIDEST)
    rows = prod(shape.loops.extents[axis] for axis in shape.rows)
    strips = strips_of_places(task, rows) if 0 not in task.group.joined else None
    return Stages((Stage(write, rows, cost, strips=strips),), own=(max(room, WIDEST),))


def shape_of(target: Target, task: Task) -> Shape:
    """The loops and passes of a group."""
    domain, group = task.group.domain, task.group
    steps = {name: task.steps(name, domain) for name in task.table if name not in group.of_rows}
    of_row = kept_steps(domain, group.joined)
    steps |= dict.fromkeys(group.of_rows, of_row) | counted(group.nodes, task.types, domain)
    loops = nest(domain, steps | last_alone(domain, group.joined))
    [row, *_] = group.of_rows
    rows = tuple(axis for axis, step in enumerate(loops.steps[row]) if step)
    columns = tuple(axis for axis in range(len(loops.extents)) if axis not in rows)
    reductions = (node for node in group.nodes if isinstance(node.form, Reduction))
    lanes = target.lanes(max(joined_by(task, node).accumulator.bits for node in reductions))
    vectors = -(-loops.extents[-1] // lanes)
    unrolled = len(columns) == 1 and vectors <= target.registers // SHARE
    return Shape(loops, rows, columns, lanes, unrolled, passes_of(target, task, task.stored, again=not unrolled))


class _Rows:
    def __init__(self, work: Work, task: Task, shape: Shape) -> None:
        self.f, self.work, self.task, self.shape = work.f, work, task, shape
        made = task.group.makes
        self.bodies = [self._body(one.nodes, one.stored, made) for one in shape.passes]
        self.after = [self._after(one.after, made) for one in shape.passes]
        kept = dict.fromkeys(name for one in shape.passes for name in one.kept)
        apart = aligned(shape.length * WIDEST)
        self.rooms = {
            name: work.f.cast(work.own(0, UINT8) + i * apart, DTYPES[task.types[name].dtype])
            for i, name in enumerate(kept)
        }

    def _after(self, nodes: Sequence[Node], made: Sequence[str]) -> Body:
        return self._body(nodes, [x for node in nodes for x in node.outputs if x in self.task.stored], made)

    def _body(self, nodes: Sequence[Node], stored: Sequence[str], made: Sequence[str]) -> Body:
        work, task = self.work, self.task
        return Body(self.f, nodes, task.types, stored, work.places, task.constants, made, refuse=work.refuse)

    def row(self, at: Sequence[Index]) -> None:
        """One row, pass by pass."""
        place = dict(zip(self.shape.rows, at, strict=True))
        of_row: dict[str, Value] = {}
        vectors: dict[int, dict[str, Value]] = {}
        for number, one in enumerate(self.shape.passes):
            wide = {name: self.f.splat(x, self.shape.lanes) for name, x in of_row.items()}
            joined = [joined_by(self.task, node) for node in one.reductions]
            if self.shape.unrolled:
                totals = self._unrolled(number, place, wide, vectors, joined)
            else:
                totals = self._over(number, place, wide, joined)
            for of, total in zip(joined, totals, strict=True):
                self._finish(of, across(total, of.form.joining.join), place, of_row)
            index = [place.get(axis, 0) for axis in range(len(self.shape.loops.extents))]
            of_row.update(self.after[number].at(self.shape.loops.steps, index, 0, 1, of_row))

    def _finish(self, of: Joined, total: Value, place: Mapping[int, Index], of_row: dict[str, Value]) -> None:
        name = of.node.outputs[0]
        dtype = self.task.types[name].dtype
        result = convert(of.form.finish(total, self.shape.length), DTYPES[dtype])
        of_row[name] = in_register(result, dtype)
        if name in self.task.stored:
            steps = self.shape.loops.steps[name]
            index = [place.get(axis, 0) for axis in range(len(steps))]
            self.f.store(result, self.work.places[name] + moved(index, steps))

    def _unrolled(
        self,
        number: int,
        place: Mapping[int, Index],
        wide: Mapping[str, Value],
        vectors: dict[int, dict[str, Value]],
        joined: Sequence[Joined],
    ) -> list[Value]:
        """A pass over a row in registers."""
        shape, links = self.shape, list[list[Value]]()
        extent = shape.loops.extents[-1]
        for i in range(0, extent, shape.lanes):
            count = min(shape.lanes, extent - i)
            values = self._values(number, place, [i], count, {**vectors.get(i, {}), **wide})
            vectors[i] = values
            links.append(
                [self._filled(of, x, count) for of, x in zip(joined, self._operands(joined, values), strict=True)]
            )
        return [by_pairs([link[k] for link in links], of.form.joining) for k, of in enumerate(joined)]

    def _over(
        self, number: int, place: Mapping[int, Index], wide: Mapping[str, Value], joined: Sequence[Joined]
    ) -> list[Value]:
        """A pass over a row in memory: loops over blocks of its axes but the last, which is done in vectors."""
        *outer, [last] = blocks_of(range(len(self.shape.loops.extents)), self.shape.rows)
        joinings = [of.form.joining for of in joined]
        types = [of.accumulator.of(self.shape.lanes) for of in joined]

        def line(at: list[Index]) -> list[Value]:
            def read(i: Index, tail: int | None) -> list[Value]:
                count = self.shape.lanes if tail is None else tail
                return self._operands(joined, self._values(number, place, [*at, i], count, wide))

            return self._line(self.shape.loops.extents[last], read, joinings, types)

        def over(blocks: Sequence[tuple[int, ...]], at: list[Index]) -> list[Value]:
            if not blocks:
                return line(at)
            extents = [self.shape.loops.extents[axis] for axis in blocks[0]]

            def read(i: Index) -> list[Value]:
                return over(blocks[1:], [*at, *unravelled(self.f, i, extents)])

            return down_rows(self.f, prod(extents), read, joinings, types)

        return over(outer, [])

    def _line(
        self, extent: int, read: Callable[[Index, int | None], list[Value]], joinings: list[Joining], types: list[Type]
    ) -> list[Value]:
        """The last axis, in vectors; without reductions each is read, and that is all."""
        if joinings:
            return in_lanes(self.f, extent, read, joinings, types)
        whole = extent // self.shape.lanes * self.shape.lanes
        for i in self.f.range(0, whole, self.shape.lanes):
            read(i, None)
        if whole < extent:
            read(whole, extent - whole)
        return []

    def _values(
        self, number: int, place: Mapping[int, Index], at: Sequence[Index], count: int, given: Mapping[str, Value]
    ) -> dict[str, Value]:
        """All values of a pass at a place of the row; what is kept is written."""
        shape, one, body = self.shape, self.shape.passes[number], self.bodies[number]
        places = {**place, **dict(zip(shape.columns, at, strict=True))}
        index = [places[axis] for axis in range(len(shape.loops.extents))]
        extents = [shape.loops.extents[axis] for axis in shape.columns]
        inside = moved(at, row_major(extents, extents))
        values = dict(given)
        if not shape.unrolled:
            for name in one.taken:
                x = self.f.load(self.rooms[name] + inside, 0, shape.lanes, count)
                values[name] = in_register(x, self.task.types[name].dtype)
        values = body.at(shape.loops.steps, index, shape.lanes, count, values)
        for node in one.reductions:
            name = node.inputs[0]
            if name not in values:
                x = body.load(name, shape.loops.steps[name], index, shape.lanes, count)
                values[name] = x if x.type.lanes else self.f.splat(x, shape.lanes)
        if not shape.unrolled:
            for name in one.kept:
                self.f.store(in_memory(values[name]), self.rooms[name] + inside, 0, count)
        return values

    def _operands(self, joined: Sequence[Joined], values: Mapping[str, Value]) -> list[Value]:
        return [convert(values[of.node.inputs[0]], of.accumulator) for of in joined]

    def _filled(self, of: Joined, x: Value, count: int) -> Value:
        """Lanes that do not count are neutral."""
        return x if count == self.shape.lanes else where(first(x, count), x, of.form.joining.neutral(x.type))

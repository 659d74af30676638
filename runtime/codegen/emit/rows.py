"""Groups that process rows: a row is read, reduced, combined with its reductions and written while it is in the caches.

The values of a row of a few vectors stay in registers between passes. A longer row is read again, and scratch of the
thread keeps values that are expensive to recompute. The vectors of a row that fits into the registers of the nominal
target are reduced in pairs, those of a longer one in chains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Final, NamedTuple

from runtime.codegen.costs import ROW_ELEMENT_CYCLES
from runtime.codegen.emit.body import Body, body_of, counted
from runtime.codegen.emit.reductions import EmittedReduction, blocks_of, kept_steps, last_alone, reduction_of
from runtime.codegen.emit.row_passes import Pass, passes_of
from runtime.codegen.emit.row_tiles import row_tiles_of_indices
from runtime.codegen.groups.group_kernel import GroupKernel
from runtime.codegen.groups.nodes import Node
from runtime.codegen.ir import DTYPES, UINT8, Index, Type, Value
from runtime.codegen.ir.words import across, convert
from runtime.codegen.kernels.nest import Nest, nest, offset_of, row_major, unravelled
from runtime.codegen.kernels.reduction import (
    Reducer,
    by_vectors,
    counted_lanes,
    down_rows,
    in_lanes,
    tails_of,
    whole_vectors,
)
from runtime.codegen.machine import Target
from runtime.codegen.rules import KernelContext, KernelStep, KernelSteps, Reduction, in_memory, in_register
from runtime.placement.alignment import aligned

Read = Callable[[Index, int | None], list[Value]]
"""Returns the vectors that begin at an element, one for each reduction; with a tail, only the first lanes count."""

MAX_ELEMENT_BYTES: Final = 8
"""Bytes of the widest element."""

REGISTER_SHARE_OF_ROW: Final = 4
"""A row stays in registers if its vectors take at most this fraction of them."""


class RowShape(NamedTuple):
    """The loops of a group over rows.

    Attributes:
        loops: loops over the domain.
        rows, columns: its axes.
        lanes: lanes of vectors, for accumulators that fill a register.
        vector_parts: number of vectors of a nominal vector.
        is_short: True if the vectors of a row are reduced in pairs.
        unrolled: True if a row stays in registers.
        passes: passes over a row.
    """

    loops: Nest
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    lanes: int
    vector_parts: int
    is_short: bool
    unrolled: bool
    passes: list[Pass]

    @property
    def length(self) -> int:
        """Elements of a row."""
        return prod(self.loops.extents[axis] for axis in self.columns)


def row_steps(target: Target, kernel: GroupKernel) -> KernelSteps:
    """Return one kernel step; a work item is a row."""
    shape = shape_of(target, kernel)

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        rows = _Rows(context, kernel, shape)
        for row in context.f.range(start, stop):
            rows.row(unravelled(context.f, row, [shape.loops.extents[axis] for axis in shape.rows]))

    cost = prod(kernel.group.domain) * (4 + len(kernel.group.nodes)) * ROW_ELEMENT_CYCLES
    kept = {name for one in shape.passes for name in one.kept}
    memory_budget = len(kept) * aligned(shape.length * MAX_ELEMENT_BYTES)
    rows = prod(shape.loops.extents[axis] for axis in shape.rows)
    row_tiles = row_tiles_of_indices(kernel, rows) if 0 not in kernel.group.reduced_axes else None
    return KernelSteps(
        (KernelStep(write, rows, cost, row_tiles=row_tiles),), thread_scratch=(max(memory_budget, MAX_ELEMENT_BYTES),)
    )


def shape_of(target: Target, kernel: GroupKernel) -> RowShape:
    """Return the loops and passes of a group."""
    domain, group = kernel.group.domain, kernel.group
    steps = {name: kernel.strides(name, domain) for name in kernel.table if name not in group.row_values}
    of_row = kept_steps(domain, group.reduced_axes)
    steps |= dict.fromkeys(group.row_values, of_row) | counted(group.nodes, kernel.types, domain)
    loops = nest(domain, steps | last_alone(domain, group.reduced_axes))
    [row, *_] = group.row_values
    rows = tuple(axis for axis, step in enumerate(loops.strides[row]) if step)
    columns = tuple(axis for axis in range(len(loops.extents)) if axis not in rows)
    reductions = (node for node in group.nodes if isinstance(node.rule, Reduction))
    lanes = target.lanes(max(reduction_of(kernel, node).accumulator.bits for node in reductions))
    parts = target.vectors_per_nominal
    is_short, unrolled = (
        len(columns) == 1 and -(-loops.extents[-1] // own) <= registers // REGISTER_SHARE_OF_ROW
        for own, registers in ((lanes * parts, target.nominal.registers), (lanes, target.registers))
    )
    passes = passes_of(target, kernel, kernel.stored, again=not unrolled)
    return RowShape(loops, rows, columns, lanes, parts, is_short, unrolled, passes)


class _Rows:
    def __init__(self, context: KernelContext, kernel: GroupKernel, shape: RowShape) -> None:
        self.f, self.context, self.kernel, self.shape = context.f, context, kernel, shape
        internal = kernel.group.outputs
        self.bodies = [self._body(one.nodes, one.stored, internal) for one in shape.passes]
        self.after = [self._after(one.after, internal) for one in shape.passes]
        kept = dict.fromkeys(name for one in shape.passes for name in one.kept)
        apart = aligned(shape.length * MAX_ELEMENT_BYTES)
        self.rooms = {
            name: context.f.cast(context.thread_scratch(0, UINT8) + i * apart, DTYPES[kernel.types[name].dtype])
            for i, name in enumerate(kept)
        }

    def _after(self, nodes: Sequence[Node], internal: Sequence[str]) -> Body:
        return self._body(nodes, [x for node in nodes for x in node.outputs if x in self.kernel.stored], internal)

    def _body(self, nodes: Sequence[Node], stored: Sequence[str], internal: Sequence[str]) -> Body:
        return body_of(self.context, self.kernel, nodes, stored, internal)

    def row(self, at: Sequence[Index]) -> None:
        """Process one row, pass by pass."""
        position = dict(zip(self.shape.rows, at, strict=True))
        of_row: dict[str, Value] = {}
        vectors: dict[int, dict[str, Value]] = {}
        for number, one in enumerate(self.shape.passes):
            wide = {name: self.f.splat(x, self.shape.lanes) for name, x in of_row.items()}
            reduced = [reduction_of(self.kernel, node) for node in one.reductions]
            if self.shape.unrolled:
                totals = self._unrolled(number, position, wide, vectors, reduced)
            else:
                totals = self._over(number, position, wide, reduced)
            totals = whole_vectors(totals, [of.rule.reducer for of in reduced])
            for of, total in zip(reduced, totals, strict=True):
                self._finish(of, across(total, of.rule.reducer.combine), position, of_row)
            index = [position.get(axis, 0) for axis in range(len(self.shape.loops.extents))]
            of_row.update(self.after[number].at(self.shape.loops.strides, index, 0, 1, of_row))

    def _finish(
        self, of: EmittedReduction, total: Value, position: Mapping[int, Index], of_row: dict[str, Value]
    ) -> None:
        name = of.node.outputs[0]
        dtype = self.kernel.types[name].dtype
        result = convert(of.rule.finish(total, self.shape.length), DTYPES[dtype])
        of_row[name] = in_register(result, dtype)
        if name in self.kernel.stored:
            steps = self.shape.loops.strides[name]
            index = [position.get(axis, 0) for axis in range(len(steps))]
            self.f.store(result, self.context.addresses[name] + offset_of(index, steps))

    def _unrolled(
        self,
        number: int,
        index: Mapping[int, Index],
        wide: Mapping[str, Value],
        vectors: dict[int, dict[str, Value]],
        reduced: Sequence[EmittedReduction],
    ) -> list[Value]:
        """Return the reductions of a pass over a row in registers."""

        def read(i: Index, tail: int | None) -> list[Value]:
            assert isinstance(i, int), "the vectors of a short row are numbered"
            count = self.shape.lanes if tail is None else tail
            vectors[i] = self._values(number, index, [i], count, {**vectors.get(i, {}), **wide})
            return self._operands(reduced, vectors[i])

        return self._in_pairs(self.shape.loops.extents[-1], read, [of.rule.reducer for of in reduced])

    def _in_pairs(self, extent: int, read: Read, reducers: list[Reducer]) -> list[Value]:
        """Return the reductions of a short row, whose vectors are reduced in pairs."""
        links: list[list[Value]] = []
        for v, count in enumerate(tails_of(extent, self.shape.lanes)):
            found = read(v * self.shape.lanes, None if count == self.shape.lanes else count)
            links.append([counted_lanes(x, count, reducer) for x, reducer in zip(found, reducers, strict=True)])
        return by_vectors(links, reducers, self.shape.vector_parts)

    def _over(
        self, number: int, index: Mapping[int, Index], wide: Mapping[str, Value], reduced: Sequence[EmittedReduction]
    ) -> list[Value]:
        """Return the reductions of a pass over a row in memory.

        It loops over blocks of the row's axes, and has vectors along the last one.
        """
        *outer, [last] = blocks_of(range(len(self.shape.loops.extents)), self.shape.rows)
        reducers = [of.rule.reducer for of in reduced]
        types = [of.accumulator.of(self.shape.lanes) for of in reduced]

        def line(at: list[Index]) -> list[Value]:
            def read(i: Index, tail: int | None) -> list[Value]:
                count = self.shape.lanes if tail is None else tail
                return self._operands(reduced, self._values(number, index, [*at, i], count, wide))

            return self._line(self.shape.loops.extents[last], read, reducers, types)

        def over(blocks: Sequence[tuple[int, ...]], at: list[Index]) -> list[Value]:
            if not blocks:
                return line(at)
            extents = [self.shape.loops.extents[axis] for axis in blocks[0]]

            def read(i: Index) -> list[Value]:
                return over(blocks[1:], [*at, *unravelled(self.f, i, extents)])

            parts = self.shape.vector_parts
            return down_rows(self.f, prod(extents), read, reducers * parts, types * parts)

        return over(outer, [])

    def _line(self, extent: int, read: Read, reducers: list[Reducer], types: list[Type]) -> list[Value]:
        """Return the reductions along the last axis, in vectors; without reductions, only compute."""
        if reducers and self.shape.is_short:
            return self._in_pairs(extent, read, reducers)
        if reducers:
            return in_lanes(self.f, extent, read, reducers, types)
        whole = extent // self.shape.lanes * self.shape.lanes
        for i in self.f.range(0, whole, self.shape.lanes):
            read(i, None)
        if whole < extent:
            read(whole, extent - whole)
        return []

    def _values(
        self, number: int, position: Mapping[int, Index], at: Sequence[Index], count: int, computed: Mapping[str, Value]
    ) -> dict[str, Value]:
        """Return all values of a pass at a position of the row; write those that are kept."""
        shape, one, body = self.shape, self.shape.passes[number], self.bodies[number]
        indices = {**position, **dict(zip(shape.columns, at, strict=True))}
        index = [indices[axis] for axis in range(len(shape.loops.extents))]
        extents = [shape.loops.extents[axis] for axis in shape.columns]
        inside = offset_of(at, row_major(extents, extents))
        values = dict(computed)
        if not shape.unrolled:
            for name in one.taken:
                x = self.f.load(self.rooms[name] + inside, 0, shape.lanes, count)
                values[name] = in_register(x, self.kernel.types[name].dtype)
        values = body.at(shape.loops.strides, index, shape.lanes, count, values)
        for node in one.reductions:
            name = node.inputs[0]
            if name not in values:
                x = body.load(name, shape.loops.strides[name], index, shape.lanes, count)
                values[name] = x if x.type.lanes else self.f.splat(x, shape.lanes)
        if not shape.unrolled:
            for name in one.kept:
                self.f.store(in_memory(values[name]), self.rooms[name] + inside, 0, count)
        return values

    def _operands(self, reduced: Sequence[EmittedReduction], values: Mapping[str, Value]) -> list[Value]:
        return [convert(values[of.node.inputs[0]], of.accumulator) for of in reduced]

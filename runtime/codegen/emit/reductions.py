"""Groups that end with reductions: pointwise nodes, reductions of their results along some axes, and nodes after these.

A work item computes one result, or a few contiguous vectors of results. For few results of many elements, the first
reduced axis is split into parts, and a work item reduces the elements of a part; a second kernel step reduces the parts
in order. If the last axis is reduced, a vector holds as many partial results as it has lanes; if it is kept, every lane
has a result of its own. Nodes of the shape of the results are computed with each result at once.

All this follows from the shape of the operand, the axes and the lanes of a nominal vector, which lies in several
registers if they are narrower: its parts. The other nodes of the group have no influence on the order of additions:
neighbouring reduced axes are one block, whatever the layouts of those nodes' operands are, and the last axis, if it is
reduced, is a block of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Final, NamedTuple

from runtime.codegen.costs import ELEMENT_CYCLES, MIN_PREFETCHED_BYTES, PARTIAL_SUM_CYCLES
from runtime.codegen.emit.body import body_of, counted
from runtime.codegen.emit.row_tiles import IMAGE_AXES, row_tiles_of_indices
from runtime.codegen.groups.group import axes_of
from runtime.codegen.groups.group_kernel import GroupKernel
from runtime.codegen.groups.nodes import Node
from runtime.codegen.ir import DTYPES, Function, Index, Type, Value
from runtime.codegen.ir.words import across, convert
from runtime.codegen.kernels.nest import Nest, Pieces, Strides, nest, offset_of, piece, pieces_of, unravelled
from runtime.codegen.kernels.reduction import Reducer, by_pairs, down_rows, in_lanes, whole_vectors
from runtime.codegen.machine import CACHE_LINE_BYTES, Target
from runtime.codegen.rules import (
    KernelContext,
    KernelStep,
    KernelSteps,
    Reduction,
    RowTiles,
    in_register,
    register_type,
)

PARALLEL_CHAINS: Final = 4
"""Number of parallel chains: vectors of results, or rows."""

ACCUMULATOR_SHARE: Final = 2
"""Chains down columns take at most this fraction of the registers, if a nominal vector lies in several of them."""

PREFETCH_ROWS: Final = 16
"""Distance of prefetches in rows; reading a part of each row does not trigger the hardware prefetcher."""

MIN_PART_ELEMENTS: Final = 1 << 13
"""Least number of elements of a part."""

WANTED_ITEMS: Final = 32
"""Number of work items that gives every thread a share."""

MIN_IMAGE_ELEMENTS: Final = 1 << 19
"""Least number of elements of a batch whose parts are whole images: a chain may pass them on one by one."""


class ReductionShape(NamedTuple):
    """The loops of a group's reductions.

    Attributes:
        reductions: the nodes whose results are stored or used in the group.
        loops: loops over the domain.
        kept: axes of the results.
        reduced: blocks of neighbouring reduced axes; one index counts through a block.
        parallel_chains: number of parallel chains, if the last axis is kept.
        lanes: lanes of the reduced vectors, for accumulators that fill a register.
        vector_parts: number of vectors of a nominal vector.
        results: results of a reduction.
        columns: pieces of the last axis, if it is kept, of one or a few vectors.
        parts: parts of the first reduced axis.
    """

    reductions: tuple[Node, ...]
    loops: Nest
    kept: tuple[int, ...]
    reduced: tuple[tuple[int, ...], ...]
    parallel_chains: int
    lanes: int
    vector_parts: int
    results: int
    columns: Pieces | None
    parts: Pieces

    @property
    def work_items(self) -> tuple[int, ...]:
        """Extents of the first step's work items: parts, then kept axes, the last of them in blocks of columns."""
        kept = [self.loops.extents[axis] for axis in self.kept]
        return (self.parts.pieces, *((*kept[:-1], self.columns.pieces) if self.columns else kept))


def reduction_steps(target: Target, kernel: GroupKernel) -> KernelSteps:
    """Return one kernel step, or two if parts have to be reduced."""
    shape = shape_of(target, kernel)
    rooms = [of.accumulator.bits // 8 for of in reductions_of(kernel, shape)]
    return steps_of_reductions(kernel, shape, Reductions, rooms)


def steps_of_reductions(
    kernel: GroupKernel, shape: ReductionShape, reductions_in: type[Reductions], part_bytes: Sequence[int]
) -> KernelSteps:
    """Return one kernel step, or two, by the class that writes both.

    `part_bytes` has the bytes of each number that a part keeps for every result.
    """

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        reductions = reductions_in(context, kernel, shape)
        for item in context.f.range(start, stop):
            reductions.item(item)

    def join(context: KernelContext, start: Value, stop: Value) -> None:
        reductions = reductions_in(context, kernel, shape)
        for item in context.f.range(start, stop):
            reductions.reduced_parts(item)

    cost = prod(kernel.group.domain) * (2 + len(kernel.group.nodes)) * ELEMENT_CYCLES
    steps = (KernelStep(write, prod(shape.work_items), cost, row_tiles=_row_tiles(kernel, shape)),)
    if shape.parts.pieces == 1:
        return KernelSteps(steps)
    rooms = [shape.parts.pieces * shape.results * item for item in part_bytes]
    vectors = -(-shape.results // shape.lanes)
    return KernelSteps(
        (*steps, KernelStep(join, vectors, shape.results * shape.parts.pieces * PARTIAL_SUM_CYCLES)), tuple(rooms)
    )


def _row_tiles(kernel: GroupKernel, shape: ReductionShape) -> RowTiles | None:
    """Return the parts as row tiles, if they are equal ranges of the first axis of the domain."""
    parts = shape.parts
    if parts.pieces == 1 or parts.size != parts.last or 0 not in kernel.group.reduced_axes or shape.reduced[0][0] != 0:
        return None
    internal = {name for other in before_of(kernel) for name in other.outputs}
    before = replace(kernel, stored=[name for name in kernel.stored if name in internal - kernel.group.row_values])
    return row_tiles_of_indices(before, parts.pieces)


def shape_of(target: Target, kernel: GroupKernel) -> ReductionShape:
    """Return the loops of a group's reductions, and their parts."""
    domain, following = kernel.group.domain, following_of(kernel)
    wanted = {*kernel.stored, *(name for node in following for name in node.inputs)}
    reductions = tuple(n for n in kernel.group.nodes if isinstance(n.rule, Reduction) and n.outputs[0] in wanted)
    before = before_of(kernel)
    results = {node.outputs[0] for node in before if isinstance(node.rule, Reduction)}
    names = {name for node in before for name in (*node.inputs, *node.outputs)} - results
    steps = {name: kernel.strides(name, domain) for name in kernel.table if name in names}
    steps |= counted(before, kernel.types, domain)
    steps |= {node.outputs[0]: kept_steps(domain, axes_of(node, len(domain))) for node in reductions}
    axes = axes_of(reductions[0], len(domain))
    loops = nest(domain, steps | last_alone(domain, axes))
    loops = loops if loops.extents else Nest((1,), dict.fromkeys(steps, (0,)))
    extents, result = loops.extents, reductions[0].outputs[0]
    kept = tuple(axis for axis in range(len(extents)) if loops.strides[result][axis])
    reduced = blocks_of(range(len(extents)), kept)
    lanes = target.lanes(max(reduction_of(kernel, node).accumulator.bits for node in reductions))
    vector_parts = target.vectors_per_nominal
    nominal = lanes * vector_parts
    results, columns = prod(extents[axis] for axis in kept), None
    items, abreast = results, 1
    if kept and kept[-1] == len(extents) - 1:
        last = last_kept(domain, axes)  # regardless of its axes in the loops
        of_last = _columns(last, nominal, PARALLEL_CHAINS)
        items, abreast = results // last * of_last.pieces, _parallel_chains(of_last.size // nominal)
        most = PARALLEL_CHAINS
        if vector_parts > 1:
            most = max(target.registers // ACCUMULATOR_SHARE // (abreast * len(reductions)), 1)
        columns = _columns(extents[-1], lanes, most)
    parts = Pieces(1, 1, 1)
    if columns and (images := _parts_of_images(domain, axes)):
        rows = prod(extents[axis] for axis in reduced[0])
        parts = pieces_of(rows, rows // images)
    elif len(reduced) > 0:
        multiple = 1 if columns or len(reduced) > 1 else PARALLEL_CHAINS * nominal
        parts = _parts(prod(extents[axis] for axis in reduced[0]), prod(extents), items, multiple)
    return ReductionShape(reductions, loops, kept, reduced, abreast, lanes, vector_parts, results, columns, parts)


def last_alone(domain: Sequence[int], axes: frozenset[int]) -> dict[str, Strides]:
    """Return the strides of a pseudo-operand that keeps nests from merging the last axis, if that is reduced."""
    last = max((axis for axis, extent in enumerate(domain) if extent > 1), default=0)
    return {"the last axis": tuple(int(axis == last) for axis in range(len(domain)))} if last in axes else {}


def last_kept(domain: Sequence[int], axes: frozenset[int]) -> int:
    """Return the number of elements behind the last reduced axis."""
    wide = (axis for axis, extent in enumerate(domain) if extent > 1 and axis in axes)
    return prod(domain[max(wide, default=-1) + 1 :])


def blocks_of(axes: Iterable[int], kept: Collection[int]) -> tuple[tuple[int, ...], ...]:
    """Return the reduced ones of the axes of loops, in blocks of neighbours; the last axis is a block of its own."""
    blocks: list[tuple[int, ...]] = []
    order = list(axes)
    for axis in order:
        if axis in kept:
            continue
        if blocks and blocks[-1][-1] == axis - 1 and axis != order[-1]:
            blocks[-1] = (*blocks[-1], axis)
        else:
            blocks.append((axis,))
    return tuple(blocks)


def _columns(extent: int, lanes: int, most: int) -> Pieces:
    """Return the pieces of the last axis, at most `most` vectors each."""
    return pieces_of(extent, _even(-(-extent // lanes), most) * lanes)


def _parallel_chains(vectors: int) -> int:
    return max(PARALLEL_CHAINS // max(vectors, 1), 1)


def kept_steps(domain: Sequence[int], axes: frozenset[int]) -> Strides:
    """Return the strides of a contiguous result, whether or not it has axes of extent 1 for the reduced ones."""
    steps, size = [0] * len(domain), 1
    for axis in reversed(range(len(domain))):
        if axis not in axes:
            steps[axis], size = size, size * domain[axis]
    return tuple(steps)


def following_of(kernel: GroupKernel) -> list[Node]:
    """Return the nodes of the shape of the results."""
    return [node for node in kernel.group.nodes if _follows(kernel, node)]


def before_of(kernel: GroupKernel) -> list[Node]:
    """Return the nodes of the shape of the operands, reductions included."""
    return [node for node in kernel.group.nodes if not _follows(kernel, node)]


def _follows(kernel: GroupKernel, node: Node) -> bool:
    return not isinstance(node.rule, Reduction) and node.outputs[0] in kernel.group.row_values


def _parts(extent: int, elements: int, items: int, multiple: int) -> Pieces:
    """Return the parts of the first reduced axis: enough for all threads, none too small, equal if possible."""
    wanted = min(elements // MIN_PART_ELEMENTS, -(-WANTED_ITEMS // items), -(-extent // multiple))
    if wanted < 2 or items >= WANTED_ITEMS // 2:
        return Pieces(1, extent, extent)
    equal = [n for n in range(wanted, wanted // 2, -1) if extent % n == 0 and extent // n % multiple == 0]
    size = extent // equal[0] if equal else -(-extent // (wanted * multiple)) * multiple
    return pieces_of(extent, size)


def _parts_of_images(domain: Sequence[int], axes: frozenset[int]) -> int:
    """Return the number of equal parts of the images of a large batch whose channels are kept; 0 for other shapes."""
    if len(domain) != IMAGE_AXES or axes != frozenset({0, 1, 2}) or prod(domain) < MIN_IMAGE_ELEMENTS:
        return 0
    parts = max(n for n in range(1, WANTED_ITEMS + 1) if domain[0] % n == 0)
    return parts if parts >= WANTED_ITEMS // 2 else 0


def _even(total: int, most: int) -> int:
    """Return the size of shares of at most `most`, as equal as possible."""
    return -(-total // -(-total // most))


class EmittedReduction(NamedTuple):
    """One reduction as it is emitted."""

    node: Node
    rule: Reduction
    accumulator: Type


def reductions_of(kernel: GroupKernel, shape: ReductionShape) -> list[EmittedReduction]:
    """Return the reductions of a group."""
    return [reduction_of(kernel, node) for node in shape.reductions]


def reduction_of(kernel: GroupKernel, node: Node) -> EmittedReduction:
    """Return a reduction node with its rule and the type of its accumulator."""
    assert isinstance(node.rule, Reduction), f"{node.op.type} joins nothing"
    return EmittedReduction(
        node, node.rule, node.rule.accumulator_type(register_type(kernel.types[node.inputs[0]].dtype))
    )


class Reductions:
    """The code of a group's reductions."""

    def __init__(self, context: KernelContext, kernel: GroupKernel, shape: ReductionShape) -> None:
        self.f, self.context, self.shape = context.f, context, shape
        self.reductions = reductions_of(kernel, shape)
        self.elements = [DTYPES[kernel.types[of.node.outputs[0]].dtype] for of in self.reductions]
        self.count = prod(kernel.group.domain) // shape.results
        following, computed = following_of(kernel), [of.node.outputs[0] for of in self.reductions]
        nodes = [node for node in before_of(kernel) if not isinstance(node.rule, Reduction)]
        internal = {name for node in nodes for name in node.outputs}
        stored = [name for name in kernel.stored if name in internal]
        self.body = body_of(context, kernel, nodes, stored)
        stored = [name for name in kernel.stored if name not in internal]
        self.following = body_of(context, kernel, following, stored, computed)
        names = {name for node in following for name in (*node.inputs, *node.outputs)} | {*computed}
        self.far = [
            name
            for name in dict.fromkeys(x for node in before_of(kernel) for x in node.inputs)
            if name in context.addresses
            and shape.loops.strides[name][:1] > (0,)
            and kernel.types[name].nbytes >= MIN_PREFETCHED_BYTES
        ]
        self.steps = {name: (int(prod(kernel.types[name].static_shape) > 1),) for name in names if name}
        self.of_columns: dict[int, dict[str, Value]] = {}

    def item(self, item: Index) -> None:
        """Compute a work item: a range of results, of all elements or of a part of them."""
        shape = self.shape
        part, *at = _indices(self.f, item, shape.work_items)
        for first, size in piece(self.f, part, shape.parts):
            if shape.columns is None:
                self._stretch(at, part, first, size, 0, 1)
                continue
            for column, columns in piece(self.f, at[-1], shape.columns):
                self._stretch(at[:-1], part, first, size, column, columns)

    def reduced_parts(self, vector: Index) -> None:
        """Reduce the parts of a vector of results."""
        lanes, parts = self.shape.lanes, self.shape.parts.pieces
        for i, count in piece(self.f, vector, pieces_of(self.shape.results, lanes)):
            waiting = [self.context.shared_scratch(k, of.accumulator) + i for k, of in enumerate(self.reductions)]
            totals = [self.f.load(at, 0, lanes, count) for at in waiting]
            loop = self.f.loop(1, parts, 1, totals)
            for part, carried in loop:
                more = [self.f.load(at, part * self.shape.results, lanes, count) for at in waiting]
                pairs = zip(self.reductions, carried, more, strict=True)
                loop.carry([of.rule.reducer.combine(a, b) for of, a, b in pairs])
            self._finish(loop.results, i, count)

    def _stretch(
        self, kept: Sequence[Index], part: Index, first: Index, size: int, column: Index, columns: int
    ) -> None:
        """Compute `columns` contiguous results."""
        shape = self.shape
        indices = dict(zip(shape.kept, [*kept, column] if shape.columns else kept, strict=True))
        vectors = list(range(0, columns, shape.lanes))
        self._load_columns(indices, vectors, columns)
        totals = self._over(shape.reduced, indices, first, size, vectors, columns)
        steps = shape.loops.strides[self.reductions[0].node.outputs[0]]
        result = offset_of([indices.get(axis, 0) for axis in range(len(steps))], steps)
        for k, i in enumerate(vectors):
            count = min(shape.lanes, columns - i)
            found = totals[k * len(self.reductions) : (k + 1) * len(self.reductions)]
            if not shape.columns:
                found = whole_vectors(totals, [of.rule.reducer for of in self.reductions])
                found = [across(x, of.rule.reducer.combine) for x, of in zip(found, self.reductions, strict=True)]
            if shape.parts.pieces == 1:
                self._finish(found, result + i, count)
                continue
            for number, (total, of) in enumerate(zip(found, self.reductions, strict=True)):
                to = self.context.shared_scratch(number, of.accumulator) + part * shape.results
                self.f.store(total, to + (result + i), 0, count if total.type.lanes else None)

    def _load_columns(self, at: Mapping[int, Index], vectors: Sequence[int], columns: int) -> None:
        """Read operands with one element for each column, before the loops over rows."""
        shape, body = self.shape, self.body
        last = len(shape.loops.extents) - 1
        read = dict.fromkeys(name for node in body.nodes for name in node.inputs if name in body.places)
        names = [name for name in read if name not in body.stored and name not in body.singles]
        kept = [name for name in names if shape.columns and not any(shape.loops.strides[name][:-1])]
        index = [at.get(axis, 0) for axis in range(last)]
        self.of_columns = {
            i: {
                name: self._operand(name, {}, [*index, at.get(last, 0) + i], min(shape.lanes, columns - i))
                for name in kept
            }
            for i in vectors
        }

    def _finish(self, totals: Sequence[Value], at: Index, count: int) -> None:
        """Finish contiguous results of each reduction, and compute the nodes after them."""
        values: dict[str, Value] = {}
        for of, element, total in zip(self.reductions, self.elements, totals, strict=True):
            result = convert(of.rule.finish(total, self.count), element)
            values[of.node.outputs[0]] = in_register(result, self.following.types[of.node.outputs[0]].dtype)
        self.following.at(self.steps, [at], totals[0].type.lanes, count, values)

    def _over(
        self,
        blocks: Sequence[tuple[int, ...]],
        at: Mapping[int, Index],
        first: Index,
        size: int,
        vectors: Sequence[int],
        columns: int,
    ) -> list[Value]:
        """Reduce along these blocks, `size` indices of the first: each reduction for every vector of columns."""
        if not blocks:
            return self._elements(at, vectors, columns)
        block, *inner = blocks
        if not inner:
            if self.shape.columns:
                return self._down(block, at, first, size, vectors, columns)
            return self._along(block, at, first, size)

        def read(i: Index) -> list[Value]:
            extent = prod(self.shape.loops.extents[axis] for axis in inner[0])
            return self._over(inner, self._at(at, block, first + i), 0, extent, vectors, columns)

        count = len(vectors) if self.shape.columns else self.shape.vector_parts
        return down_rows(self.f, size, read, *self._ways(count))

    def _at(self, at: Mapping[int, Index], block: Sequence[int], index: Index) -> Mapping[int, Index]:
        """Return the index of every axis, with those of a block at a position of it."""
        if len(block) == 1:
            return {**at, block[0]: index}
        extents = [self.shape.loops.extents[axis] for axis in block]
        return {**at, **dict(zip(block, unravelled(self.f, index, extents), strict=True))}

    def _down(
        self,
        block: Sequence[int],
        at: Mapping[int, Index],
        first: Index,
        size: int,
        vectors: Sequence[int],
        columns: int,
    ) -> list[Value]:
        """Reduce rows one by one, or a few in parallel if they are short."""
        abreast = self.shape.parallel_chains

        def rows(i: Index) -> list[Value]:
            start = first + i * abreast
            self._ask_ahead(self._at(at, block, start + PREFETCH_ROWS), columns)
            rows = [self._at(at, block, start + r) for r in range(abreast)]
            return [x for row in rows for x in self._elements(row, vectors, columns)]

        reducers, types = self._ways(len(vectors))
        chains = down_rows(self.f, size // abreast, rows, reducers * abreast, types * abreast)
        width = len(reducers)
        for r in range(size % abreast):
            row = self._at(at, block, first + (size // abreast * abreast + r))
            more = self._elements(row, vectors, columns)
            for k, (reducer, x) in enumerate(zip(reducers, more, strict=True), r * width):
                chains[k] = reducer.combine(chains[k], x)
        return [by_pairs(chains[k::width], reducer) for k, reducer in enumerate(reducers)]

    def _ask_ahead(self, at: Mapping[int, Index], columns: int) -> None:
        """Prefetch these columns of a later row, of operands that do not fit into the caches."""
        index = [at.get(axis, 0) for axis in range(len(self.shape.loops.extents))]
        for name in self.far:
            position = self.context.addresses[name] + offset_of(index, self.shape.loops.strides[name])
            for column in range(0, columns, CACHE_LINE_BYTES // max(DTYPES[self.body.types[name].dtype].bits // 8, 1)):
                self.f.prefetch(position, column, 2)

    def _along(self, block: Sequence[int], at: Mapping[int, Index], first: Index, size: int) -> list[Value]:
        """Reduce vectors of the row as four parallel chains; lanes are reduced last."""
        [axis] = block  # the last axis

        def read(i: Index, tail: int | None) -> list[Value]:
            return self._elements({**at, axis: first + i}, [0], self.shape.lanes if tail is None else tail)

        return in_lanes(self.f, size, read, *self._ways(1))

    def _ways(self, vectors: int) -> tuple[list[Reducer], list[Type]]:
        """Return the reducer and the type of each vector."""
        reducers = [of.rule.reducer for of in self.reductions] * vectors
        return reducers, [of.accumulator.of(self.shape.lanes) for of in self.reductions] * vectors

    def _elements(self, at: Mapping[int, Index], vectors: Sequence[int], columns: int) -> list[Value]:
        """Return the operands of all reductions at a position, for each vector."""
        shape, found = self.shape, list[Value]()
        for i in vectors:
            index = [at.get(axis, 0) for axis in range(len(shape.loops.extents))]
            index[-1] = index[-1] + i
            count = min(shape.lanes, columns - i)
            values = self.body.at(shape.loops.strides, index, shape.lanes, count, self.of_columns.get(i))
            found += [
                convert(self._operand(of.node.inputs[0], values, index, count), of.accumulator)
                for of in self.reductions
            ]
        return found

    def _operand(self, name: str, values: dict[str, Value], index: Sequence[Index], count: int) -> Value:
        if name not in values:
            x = self.body.load(name, self.shape.loops.strides[name], index, self.shape.lanes, count)
            values[name] = x if x.type.lanes else self.f.splat(x, self.shape.lanes)
        return values[name]


def _indices(f: Function, item: Index, extents: Sequence[int]) -> list[Index]:
    """Return the index for every axis; 0 for axes of extent 1."""
    some = iter(unravelled(f, item, [extent for extent in extents if extent > 1]))
    return [next(some) if extent > 1 else 0 for extent in extents]

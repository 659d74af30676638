"""The gradients of attention: a work item is a head of keys and values, with the blocks of queries that read it.

With weights p and their gradient dp, the gradient of the scores is p * (dp - sum(p * dp)). If there are few heads, a
work item has a part of the queries, and later kernel steps add the gradients of keys and values of all parts, in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from prograd_proto import TensorType
from runtime.codegen.costs import PARTIAL_SUM_CYCLES
from runtime.codegen.ir import Function, Index, Value
from runtime.codegen.ir.words import convert, maximum, minimum, where
from runtime.codegen.kernels.attention.heads import Block, Heads, blocks_of, heads_of
from runtime.codegen.kernels.attention.panels import panels_of, write_panels
from runtime.codegen.kernels.attention.products import by_keys, computed, first_of_panel, of_keys, over_keys
from runtime.codegen.kernels.attention.rows import (
    MemoryLayout,
    ResultPlace,
    Rows,
    ahead_of,
    contiguous,
    copy_rows,
    own_places,
    packed,
    packed_rows,
    rows_of,
)
from runtime.codegen.kernels.attention.seen import are_finite, seen_keys
from runtime.codegen.kernels.attention.weights import ROWS_TOGETHER, in_order, sums_of_products, write_weights
from runtime.codegen.kernels.copies import zeros
from runtime.codegen.kernels.matmul import Matrix
from runtime.codegen.kernels.moves import Layout, row_major
from runtime.codegen.kernels.nest import along
from runtime.codegen.kernels.partial_sums import ELEMENTS_PER_ITEM, reduction_step
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.machine import Target

KEYS, VALUES, WEIGHTS, GRADIENTS, QUERY_NUMBERS = range(5)
"""Scratch of the thread: panels of keys and of values, weights, their gradients, and a number for each query."""

PACKED_KEYS, PACKED_QUERIES, PACKED_GRADIENTS, KEY_SUMS, VALUE_SUMS = range(5, 10)
"""More of it, where rows have gaps: keys, queries and gradients of results, and gradients of keys and of values."""

WANTED_ITEMS: Final = 8
"""Number of work items that gives every thread a share."""

FORWARD_PRODUCTS, GRADIENT_PRODUCTS = 2, 5
"""Number of products of attention, and of its gradient."""


def backward(
    target: Target,
    inputs: Sequence[TensorType | None],
    outputs: Sequence[TensorType],
    attributes: Mapping[str, Any],
    layouts: Sequence[Layout] = (),
    places: Sequence[ResultPlace] = (),
) -> KernelSteps:
    """Return the kernel steps of the gradient.

    Args:
        target: the target of the code.
        inputs: types of queries, keys, values, the gradient of the result and, if there is one, the mask.
        outputs: types of the results.
        attributes: attributes by name.
        layouts: layouts of the operands before the mask; they are contiguous if none are given.
        places: the positions of the three results; they are tensors of their own if none are given.
    """
    *operands, mask = inputs
    q, k, v, dy = (x for x in operands if x is not None)
    heads = heads_of(target, q, k, v, mask, attributes["causal"], attributes["scale"])
    shapes = [x.static_shape for x in (q, k, v)]
    memory = MemoryLayout(layouts or contiguous([q, k, v, dy]), places or own_places(shapes))

    batches = heads.of_group * -(-heads.blocks // heads.together)
    groups = heads.images * heads.groups
    parts = min(batches, -(-WANTED_ITEMS // groups)) if groups < WANTED_ITEMS else 1

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        f, gradients = context.f, _Gradients(context, heads, memory, parts)
        for item in f.range(start, stop):
            part, group = f.index(item) // groups, f.index(item) % groups
            gradients.begin_group(group, f.index(item))
            for batch in f.range(part * batches // parts, (part + 1) * batches // parts):
                number = batch % (batches // heads.of_group) * heads.together if heads.blocks > heads.together else 0
                head = group * heads.of_group + batch // (batches // heads.of_group)
                gradients.write(group, head, number, f.index(item))
            gradients.end_group(group)

    weights = heads.together * heads.rows * heads.row
    queries = heads.together * heads.rows
    of_q, of_k, _, of_dy = memory.has_gaps
    copies = of_k * heads.keys * heads.depth, of_q * queries * heads.depth, of_dy * queries * heads.width
    sums = [heads.keys * x.layout.shape[3] * (x.has_gaps and parts == 1) for x in memory.results[1:]]
    sizes = (panels_of(heads, heads.depth), panels_of(heads, heads.width), weights, weights, heads.rows, *copies, *sums)
    own = tuple(size * heads.item for size in sizes)
    kernel_step = KernelStep(write, groups * parts, heads.cycles * GRADIENT_PRODUCTS / FORWARD_PRODUCTS)
    if parts == 1:
        return KernelSteps((kernel_step,), thread_scratch=own)
    results = [groups * heads.keys * size for size in (heads.depth, heads.width)]
    joins = [sum_of_parts(heads, place, parts, i) for i, place in enumerate(memory.results[1:])]
    return KernelSteps((kernel_step, *joins), tuple(parts * size * heads.item for size in results), own)


class _Gradients:
    def __init__(self, context: KernelContext, heads: Heads, memory: MemoryLayout, parts: int) -> None:
        self.context, self.heads, self.f = context, heads, context.f
        *operands, self.mask = context.inputs
        self.q, self.k, self.v, self.dy = memory.operands_of(operands)
        self.dq, *self.results = memory.results_of(context.outputs)
        if parts > 1:
            layouts = enumerate(layouts_of_parts(heads, parts))
            self.results = [rows_of(context.shared_scratch(i, heads.element), x) for i, x in layouts]
        self.sums = sums_of(context, heads, self.results, (KEY_SUMS, VALUE_SUMS))
        own = [context.thread_scratch(i, heads.element) for i in range(QUERY_NUMBERS + 1)]
        self.keys, self.values, self.weights, self.gradients, self.line = own
        self.finite, self.word, self.most = self.f.local(), self.f.local(), self.f.local()

    def begin_group(self, group: Value, item: Value) -> None:
        """Begin a head of keys and values: pack both, and set this item's sums of their gradients to 0."""
        f, heads = self.f, self.heads
        k, v = self.k.of(group), self.v.of(group)
        k = packed_rows(self.context, self.k, k, heads.keys, PACKED_KEYS)
        write_panels(self.context, heads, k, heads.depth, self.keys)
        write_panels(self.context, heads, v, heads.width, self.values)
        for to in self.sums:
            zeros(f, to.of(item).at, heads.keys * to.size, heads.element.of(heads.lanes))
        if heads.leaves_out:
            finite = are_finite(f, heads, [(x, heads.keys, size) for x, size in ((k, heads.depth), (v, heads.width))])
            f.store(where(finite, f.index(1), 0), self.finite)
            for head in f.range(group * heads.of_group, (group + 1) * heads.of_group):
                parts = [(x.of(f.index(head)), heads.queries, x.size) for x in (self.q, self.dy)]
                f.store(where(are_finite(f, heads, parts), f.load(self.finite), 0), self.finite)

    def end_group(self, group: Value) -> None:
        """End a head of keys and values: write its gradients, if they were summed apart from them."""
        copy_sums(self.f, self.sums, self.results, group)

    def write(self, group: Value, head: Value, number: Index, item: Value) -> None:
        """Add the contributions of some blocks of queries, from a numbered one on, to all gradients."""
        f, heads = self.f, self.heads
        first = number * heads.rows
        stop: Index = heads.queries
        if heads.blocks > heads.together:
            stop = minimum(heads.queries - f.index(first), heads.together * heads.rows)
        q, dy = (
            packed_rows(self.context, x, x.of(head).moved(first, 0), stop, scratch)
            for x, scratch in ((self.q, PACKED_QUERIES), (self.dy, PACKED_GRADIENTS))
        )
        f.store(f.index(0), self.most)
        for i in f.range(0, heads.together):
            at = f.index(number) + i
            with f.when(at < heads.blocks):
                for block in blocks_of(self.context, heads, head, at):
                    self._block(group, head, block, block.first - first, q, dy)
        dk, dv = (x.of(item) for x in self.sums)
        for key in f.range(0, f.load(self.most) if heads.leaves_out else heads.keys, heads.panel):
            start: Index = 0
            if heads.leaves_out and heads.causal:
                start = maximum(f.index(first_of_panel(heads, key)) - first, 0) // heads.rows * heads.rows
                start = where(f.load(self.finite).equal(1), start, 0)
            for left, right, size, to in (
                (self.weights, dy, heads.width, dv),
                (self.gradients, q, heads.depth, dk),
            ):
                of_keys(self.context, heads, left, right, size, start, stop, key, to)

    def _block(self, group: Value, head: Value, block: Block, row: Index, q: Matrix, dy: Matrix) -> None:
        """Compute the weights of a block and their gradients, from `row` on, and the gradients of its queries."""
        f, heads = self.f, self.heads
        seen = seen_keys(self.context, heads, block, self.mask, self.finite, self.word)
        p, dp = (x + row * heads.row for x in (self.weights, self.gradients))
        q, dy, dq = q.moved(row, 0), dy.moved(row, 0), self.dq.of(head).moved(block.first, 0)
        keys = packed(self.context, self.k, self.k.of(group), PACKED_KEYS)
        tensors = [self.q, self.k, self.v, self.dy, self.dq, *self.results]
        ahead = ahead_of(tensors, head, heads.of_group)
        write_weights(self.context, heads, block, q, self.keys, self.mask, seen, p, self.line, ahead)
        by_keys(self.context, heads, block.rows, dy, heads.width, self.values, seen, dp)
        self._of_scores(p, dp, block.rows, computed(heads, seen, heads.wide))

        def stored(x: Value, i: Index, j: Index, count: int) -> None:
            f.store(x, dq.moved(i, j).at, 0, count)

        over_keys(self.context, heads, block.rows, Matrix(dp, heads.row), keys, heads.depth, seen, stored)
        if heads.leaves_out:
            f.store(maximum(f.load(self.most), computed(heads, seen, heads.keys)), self.most)

    def _of_scores(self, p: Value, dp: Value, rows: int, columns: Index) -> None:
        """Turn powers into weights, and their gradient into that of the scores; both are 0 for hidden keys."""
        whole = rows // ROWS_TOGETHER * ROWS_TOGETHER
        for i in self.f.range(0, whole, ROWS_TOGETHER):
            self._of_rows(p, dp, i, ROWS_TOGETHER, columns)
        if whole < rows:
            self._of_rows(p, dp, whole, rows - whole, columns)

    def _of_rows(self, p: Value, dp: Value, first: Index, count: int, columns: Index) -> None:
        f, heads, lanes = self.f, self.heads, self.heads.lanes
        indices = [(first + i) * heads.row for i in range(count)]
        totals = in_order(heads, sums_of_products(f, heads, p, dp, indices, columns))
        factors = [f.load(self.line, first + i) for i in range(count)]
        shares = [f.splat(total * factor, lanes) for total, factor in zip(totals, factors, strict=True)]
        for j in f.range(0, columns, lanes):
            for at, factor, share in zip(indices, factors, shares, strict=True):
                weight = f.load(p, at + j, lanes) * factor
                f.store(weight, p, at + j)
                f.store((f.load(dp, at + j, lanes) - share) * weight * heads.scale, dp, at + j)
        if heads.leaves_out:
            zero = f.constant(heads.element.of(lanes), 0)
            for j in f.range(columns, heads.wide, lanes):
                for x, at in ((x, at) for x in (p, dp) for at in indices):
                    f.store(zero, x, at + j)


def sums_of(context: KernelContext, heads: Heads, results: Sequence[Rows], numbers: Sequence[int]) -> list[Rows]:
    """Return the rows in which gradients are summed: results, or one head in scratch of the thread, by number.

    Results with gaps between their rows, or of another type than the sums, are written when a head is complete.
    """
    return [
        x.one_head(context.thread_scratch(number, heads.element)) if x.has_gaps or x.element != heads.element else x
        for x, number in zip(results, numbers, strict=True)
    ]


def copy_sums(f: Function, sums: Sequence[Rows], results: Sequence[Rows], head: Value) -> None:
    """Write the results of a head that were summed apart from them."""
    for source, result in zip(sums, results, strict=True):
        if source is not result:
            copy_rows(f, source.of(head), result.of(head), result.shape[2], result.size)


def layouts_of_parts(heads: Heads, parts: int) -> list[Layout]:
    """Return the layouts of the sums of parts, of gradients of keys and of values: heads of all parts, in order."""
    shapes = [(parts, heads.images * heads.groups, heads.keys, size) for size in (heads.depth, heads.width)]
    return [Layout(shape, row_major(shape)) for shape in shapes]


def sum_of_parts(heads: Heads, place: ResultPlace, parts: int, number: int) -> KernelStep:
    """Return the step that adds the sums of all parts, in order: those of keys or of values, by number."""
    layout = layouts_of_parts(heads, parts)[number]
    _, groups, keys, size = layout.shape
    if not place.offset and place.layout.is_plain:
        return reduction_step(heads.element, heads.lanes, groups * keys * size, parts, number, place.number)
    together = max(ELEMENTS_PER_ITEM // size, 1)
    items_of_group = -(-keys // together)

    def add(context: KernelContext, start: Value, stop: Value) -> None:
        f = context.f
        partial = rows_of(context.shared_scratch(number, heads.element), layout)
        result = rows_of(context.outputs[place.number] + place.offset, place.layout)
        for item in f.range(start, stop):
            group, first = f.index(item) // items_of_group, f.index(item) % items_of_group * together
            sources = [partial.of(group + part * groups) for part in range(parts)]
            for i in f.range(first, minimum(first + together, keys)):
                _add_rows(f, [x.moved(i, 0).at for x in sources], result.of(group).moved(i, 0).at, size, heads.lanes)

    return KernelStep(add, groups * items_of_group, groups * keys * size * parts * PARTIAL_SUM_CYCLES)


def _add_rows(f: Function, sources: Sequence[Value], to: Value, size: int, lanes: int) -> None:
    """Write the sums of contiguous elements, in the order of the sources, converted to the type of the result."""
    element = to.type.element
    assert element is not None, "the address is a pointer"

    def add(i: Index, lanes: int, count: int) -> None:
        tail = count if lanes else None
        total, *others = (f.load(source, i, lanes, tail) for source in sources)
        for x in others:
            total = total + x
        f.store(convert(total, element), to, i, tail)

    along(f, size, lanes, add)

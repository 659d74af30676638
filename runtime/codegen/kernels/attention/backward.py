"""The gradients of attention: a work item is a head of keys and values, with the blocks of queries that read it.

With weights p and their gradient dp, the gradient of the scores is p * (dp - sum(p * dp)). If there are few heads, a
work item has a part of the queries, and later kernel steps add the gradients of keys and values of all parts, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from prograd_proto import TensorType
from runtime.codegen.costs import PARTIAL_SUM_CYCLES
from runtime.codegen.ir import Function, Index, Value
from runtime.codegen.ir.words import convert, maximum, minimum, where
from runtime.codegen.kernels.attention.heads import Block, Heads, blocks_of, heads_of
from runtime.codegen.kernels.attention.pairs import products_of
from runtime.codegen.kernels.attention.products import Products, computed, first_of_panel, store_as
from runtime.codegen.kernels.attention.rows import (
    MemoryLayout,
    ResultPlace,
    Scratch,
    ahead_of,
    contiguous,
    copy_rows,
    own_places,
    rows_of,
)
from runtime.codegen.kernels.attention.seen import are_finite, seen_keys
from runtime.codegen.kernels.attention.weights import ROWS_TOGETHER, in_order, sums_of_products, write_weights
from runtime.codegen.kernels.copies import zeros
from runtime.codegen.kernels.matmul import Matrix
from runtime.codegen.kernels.moves import Layout, row_major
from runtime.codegen.kernels.nest import along
from runtime.codegen.kernels.op_types import OpTypes
from runtime.codegen.kernels.partial_sums import ELEMENTS_PER_ITEM, reduction_step
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.machine import Target

WANTED_ITEMS: Final = 8
"""Number of work items that gives every thread a share."""

FORWARD_PRODUCTS, GRADIENT_PRODUCTS = 2, 5
"""Number of products of attention, and of its gradient."""


def backward(
    target: Target, op: OpTypes, layouts: Sequence[Layout] = (), places: Sequence[ResultPlace] = ()
) -> KernelSteps:
    """Return the kernel steps of the gradient.

    Args:
        target: the target of the code.
        op: the op; its operands are queries, keys, values, the gradient of the result and, if there is one, the mask.
        layouts: layouts of the operands before the mask; they are contiguous if none are given.
        places: the positions of the three results; they are tensors of their own if none are given.
    """
    *operands, mask = op.inputs
    q, k, v, dy = (x for x in operands if x is not None)
    heads = heads_of(target, q, k, v, mask, op.attributes["causal"], op.attributes["scale"])
    products = products_of(heads)
    shapes = [x.static_shape for x in (q, k, v)]
    memory = MemoryLayout(layouts or contiguous([q, k, v, dy]), places or own_places(shapes))

    batches = heads.of_group * -(-heads.blocks // heads.together)
    groups = heads.images * heads.groups
    parts = min(batches, -(-WANTED_ITEMS // groups)) if groups < WANTED_ITEMS else 1
    sums = [
        heads.keys * place.layout.shape[3] if parts == 1 and _are_summed_apart(place, op.outputs[place.number]) else 0
        for place in memory.results[1:]
    ]
    scratch = _scratch(products, memory, sums)

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        f, gradients = context.f, _Gradients(context, products, memory, scratch, parts)
        for item in f.range(start, stop):
            part, group = f.index(item) // groups, f.index(item) % groups
            gradients.begin_group(group, f.index(item))
            for batch in f.range(part * batches // parts, (part + 1) * batches // parts):
                number = batch % (batches // heads.of_group) * heads.together if heads.blocks > heads.together else 0
                head = group * heads.of_group + batch // (batches // heads.of_group)
                gradients.write(group, head, number, f.index(item))
            gradients.end_group(group)

    own = scratch.nbytes(heads.item)
    kernel_step = KernelStep(write, groups * parts, heads.cycles * GRADIENT_PRODUCTS / FORWARD_PRODUCTS)
    if parts == 1:
        return KernelSteps((kernel_step,), thread_scratch=own)
    results = [groups * heads.keys * size for size in (heads.depth, heads.width)]
    joins = [_sum_of_parts(heads, place, parts, i) for i, place in enumerate(memory.results[1:])]
    return KernelSteps((kernel_step, *joins), tuple(parts * size * heads.item for size in results), own)


def _are_summed_apart(place: ResultPlace, type: TensorType) -> bool:
    """Return True if a gradient is summed in scratch of the thread, and written when a head is complete.

    Results with gaps between their rows are, and those of another type than the sums.
    """
    return place.has_gaps or type.dtype == "bfloat16"


def _scratch(products: Products, memory: MemoryLayout, sums: Sequence[int]) -> Scratch:
    """Return the sizes of scratch of the thread; `_Gradients` names them in this order."""
    heads, (of_q, of_k, _, of_dy) = products.heads, memory.has_gaps
    steps, depth, width = heads.together * products.block_steps, heads.depth, heads.width
    return Scratch(
        (products.columns_size(depth), products.columns_size(width), *[steps * heads.row] * 2, heads.rows),
        (
            *[products.block_scores_size] * 2,
            products.right_size(products.steps(heads.keys), depth, has_gaps=of_k),
            products.right_size(steps, depth, has_gaps=of_q),
            products.right_size(steps, width, has_gaps=of_dy),
            products.block_left_size(depth, has_gaps=of_q),
            products.block_left_size(width, has_gaps=of_dy),
            *sums,
        ),
    )


class _Gradients:
    """The gradients of a work item.

    Attributes:
        keys, values: panels of keys and values.
        factors: weights, and gradients of scores, of a batch of blocks, as factors of the gradients of values and keys.
        line: a number for each query of a block.
        weights, gradients: weights of a block and their gradients, if they are not the factors.
        key_rows, queries, shares: copies of keys, and of queries and gradients of results of a batch of blocks.
        left_queries, left_shares: copies of those of a block as left operands.
    """

    def __init__(
        self, context: KernelContext, products: Products, memory: MemoryLayout, scratch: Scratch, parts: int
    ) -> None:
        self.context, self.products, self.heads, self.f = context, products, products.heads, context.f
        heads = self.heads
        *operands, self.mask = context.inputs
        self.q, self.k, self.v, self.dy = memory.operands_of(operands)
        self.dq, *self.results = memory.results_of(context.outputs)
        if parts > 1:
            layouts = enumerate(_layouts_of_parts(heads, parts))
            self.results = [rows_of(context.shared_scratch(i, heads.element), x) for i, x in layouts]
        (self.keys, self.values, *self.factors, self.line), copies = scratch.addresses(context, heads.element)
        self.weights, self.gradients, self.key_rows, self.queries, self.shares, *copies = copies
        self.left_queries, self.left_shares, *sums = copies
        pairs = zip(self.results, sums, strict=True)
        self.sums = [result if at is None else result.one_head(at) for result, at in pairs]
        self.finite, self.word, self.most = self.f.local(), self.f.local(), self.f.local()

    def begin_group(self, group: Value, item: Value) -> None:
        """Begin a head of keys and values: pack both, and set this item's sums of their gradients to 0."""
        f, heads, products = self.f, self.heads, self.products
        k, v = self.k.of(group), self.v.of(group)
        products.write_right(f, k, heads.keys, heads.depth, self.key_rows)
        products.write_columns(f, k, heads.depth, self.keys)
        products.write_columns(f, v, heads.width, self.values)
        for to in self.sums:
            zeros(f, to.of(item).at, heads.keys * to.size, products.vector)
        if heads.leaves_out:
            finite = self._are_finite([(k, heads.keys, heads.depth), (v, heads.keys, heads.width)])
            f.store(where(finite, f.index(1), 0), self.finite)
            for head in f.range(group * heads.of_group, (group + 1) * heads.of_group):
                finite = self._are_finite([(x.of(f.index(head)), heads.queries, x.size) for x in (self.q, self.dy)])
                f.store(where(finite, f.load(self.finite), 0), self.finite)

    def _are_finite(self, parts: Sequence[tuple[Matrix, int, int]]) -> Value:
        return are_finite(self.f, self.heads, [(self.products.elements(x), rows, size) for x, rows, size in parts])

    def end_group(self, group: Value) -> None:
        """End a head of keys and values: write its gradients, if they were summed apart from them."""
        for source, result in zip(self.sums, self.results, strict=True):
            if source is not result:
                copy_rows(self.f, source.of(group), result.of(group), result.shape[2], result.size)

    def write(self, group: Value, head: Value, number: Index, item: Value) -> None:
        """Add the contributions of some blocks of queries, from a numbered one on, to all gradients."""
        f, heads, products = self.f, self.heads, self.products
        first, stop = number * heads.rows, products.batch_steps(f, number)
        f.store(f.index(0), self.most)
        for i in f.range(0, heads.together):
            at = f.index(number) + i
            with f.when(at < heads.blocks):
                for block in blocks_of(self.context, heads, head, at):
                    self._block(group, head, block, f.index(i) * products.block_steps)
        q, dy = (
            products.right(x.of(head).moved(first, 0), x.size, copy)
            for x, copy in ((self.q, self.queries), (self.dy, self.shares))
        )
        dk, dv = (x.of(item) for x in self.sums)
        weights, scores = self.factors
        for key in f.range(0, f.load(self.most) if heads.leaves_out else heads.keys, heads.panel):
            start: Index = 0
            if heads.leaves_out and heads.causal:
                start = maximum(f.index(first_of_panel(heads, key)) - first, 0) // heads.rows * products.block_steps
                start = where(f.load(self.finite).equal(1), start, 0)
            for left, right, size, to in ((weights, dy, heads.width, dv), (scores, q, heads.depth, dk)):
                products.of_keys(f, left, right, size, start, stop, key, to)

    def _block(self, group: Value, head: Value, block: Block, step: Value) -> None:
        """Compute the weights of a block and their gradients, as factors from a step on, and its queries' gradients."""
        f, heads, products, rows = self.f, self.heads, self.products, block.rows
        seen = seen_keys(self.context, heads, block, self.mask, self.finite, self.word)
        factors = [x + step * heads.row for x in self.factors]
        p, dp = (
            factor if own is None else own for own, factor in zip((self.weights, self.gradients), factors, strict=True)
        )
        q, dy, dq = (x.of(head).moved(block.first, 0) for x in (self.q, self.dy, self.dq))
        q = products.block_operand(f, q, rows, heads.depth, step, self.queries, self.left_queries)
        dy = products.block_operand(f, dy, rows, heads.width, step, self.shares, self.left_shares)
        tensors = [self.q, self.k, self.v, self.dy, self.dq, *self.results]
        ahead = ahead_of(tensors, head, heads.of_group)
        write_weights(self.context, products, block, q, self.keys, self.mask, seen, p, self.line, ahead)
        products.by_keys(f, rows, dy, self.values, heads.width, seen, dp)
        self._of_scores(p, dp, factors, rows, computed(heads, seen, heads.wide))

        def stored(x: Value, i: Index, j: Index, count: int) -> None:
            store_as(x, dq.moved(i, j).at, count)

        keys = products.right(self.k.of(group), heads.depth, self.key_rows)
        products.over_keys(f, rows, Matrix(dp, heads.row), keys, heads.depth, seen, stored)
        if heads.leaves_out:
            f.store(maximum(f.load(self.most), computed(heads, seen, heads.keys)), self.most)

    def _of_scores(self, p: Value, dp: Value, factors: Sequence[Value], rows: int, columns: Index) -> None:
        """Write factors: weights, and the gradients of scores from theirs; both are 0 for hidden keys."""
        whole = rows // ROWS_TOGETHER * ROWS_TOGETHER
        for i in self.f.range(0, whole, ROWS_TOGETHER):
            self._of_rows(p, dp, factors, i, ROWS_TOGETHER, columns)
        if whole < rows:
            self._of_rows(p, dp, factors, whole, rows - whole, columns)

    def _of_rows(self, p: Value, dp: Value, factors: Sequence[Value], first: Index, count: int, columns: Index) -> None:
        f, heads, lanes, each = self.f, self.heads, self.heads.lanes, self.products.elements_of_step
        indices = [(first + i) * heads.row for i in range(count)]
        totals = in_order(heads, sums_of_products(f, heads, p, dp, indices, columns))
        numbers = [f.load(self.line, first + i) for i in range(count)]
        shares = [f.splat(total * number, lanes) for total, number in zip(totals, numbers, strict=True)]
        steps = [(first if each == 1 else f.index(first) // each) + i for i in range(self.products.steps(count))]
        places = [[x + step * heads.row for x in factors] for step in steps]
        for j in f.range(0, columns, lanes):
            for i, to in enumerate(places):
                queries = range(i * each, min((i + 1) * each, count))
                weights = [f.load(p, indices[k] + j, lanes) * numbers[k] for k in queries]
                scores = [
                    (f.load(dp, indices[k] + j, lanes) - shares[k]) * weight * heads.scale
                    for k, weight in zip(queries, weights, strict=True)
                ]
                self.products.store_factors(f, weights, scores, to, [dp + indices[k] for k in queries], j)
        if heads.leaves_out:
            zero = f.constant(heads.element.of(lanes), 0)
            for j in f.range(columns, heads.wide, lanes):
                for at in (at for to in places for at in to):
                    f.store(zero, at, j)


def _layouts_of_parts(heads: Heads, parts: int) -> list[Layout]:
    """Return the layouts of the sums of parts, of gradients of keys and of values: heads of all parts, in order."""
    shapes = [(parts, heads.images * heads.groups, heads.keys, size) for size in (heads.depth, heads.width)]
    return [Layout(shape, row_major(shape)) for shape in shapes]


def _sum_of_parts(heads: Heads, place: ResultPlace, parts: int, number: int) -> KernelStep:
    """Return the step that adds the sums of all parts, in order: those of keys or of values, by number."""
    layout = _layouts_of_parts(heads, parts)[number]
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
    element = to.element

    def add(i: Index, lanes: int, count: int) -> None:
        tail = count if lanes else None
        total, *others = (f.load(source, i, lanes, tail) for source in sources)
        for x in others:
            total = total + x
        f.store(convert(total, element), to, i, tail)

    along(f, size, lanes, add)

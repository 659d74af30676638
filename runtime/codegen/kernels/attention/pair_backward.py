"""The gradients of attention of bfloat16: as those of float32, by products of pairs.

Weights and gradients of scores are float32 in the softmax, and rounded as factors: as pairs of queries for the
gradients of keys and values, and as pairs of keys for those of queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, Final

from prograd_proto import TensorType
from runtime.codegen.ir import UINT32, Index, Value
from runtime.codegen.ir.halves import narrowed
from runtime.codegen.ir.types import BFLOAT16
from runtime.codegen.ir.words import maximum, minimum, where
from runtime.codegen.kernels.attention.backward import (
    FORWARD_PRODUCTS,
    GRADIENT_PRODUCTS,
    WANTED_ITEMS,
    copy_sums,
    layouts_of_parts,
    sum_of_parts,
    sums_of,
)
from runtime.codegen.kernels.attention.heads import Block, Heads, blocks_of, heads_of
from runtime.codegen.kernels.attention.pairs import (
    PairProducts,
    packed_size,
    pairs_of,
    panels_of_keys,
    panels_of_rows,
    store_as,
)
from runtime.codegen.kernels.attention.products import computed, first_of_panel
from runtime.codegen.kernels.attention.rows import MemoryLayout, ResultPlace, ahead_of, contiguous, own_places, rows_of
from runtime.codegen.kernels.attention.seen import seen_keys
from runtime.codegen.kernels.attention.weights import ROWS_TOGETHER, Softmax, in_order, sums_of_products
from runtime.codegen.kernels.copies import zeros
from runtime.codegen.kernels.matmul import Matrix
from runtime.codegen.kernels.moves import Layout
from runtime.codegen.kernels.pair_products import paired
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.machine import Target

OWN: Final = 12
"""Number of scratch memories of a thread; `_Gradients` names them."""

KEY_SUMS, VALUE_SUMS = OWN, OWN + 1
"""More of it, if results have gaps or are bfloat16: gradients of keys and of values."""


def pair_backward(
    target: Target,
    inputs: Sequence[TensorType | None],
    outputs: Sequence[TensorType],
    attributes: Mapping[str, Any],
    layouts: Sequence[Layout] = (),
    places: Sequence[ResultPlace] = (),
) -> KernelSteps:
    """Return the kernel steps of the gradient; the arguments are those of `backward`. Results may be bfloat16."""
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
                gradients.write(head, number, f.index(item))
            gradients.end_group(group)

    sums = memory.results[1:]
    pairs, depth, width = heads.together * pairs_of(heads.rows), heads.depth, heads.width
    own = (
        *(panels_of_keys(heads, size) for size in (depth, width)),
        panels_of_rows(heads, pairs_of(heads.keys), depth),
        *[heads.rows * heads.row] * 2,
        *[pairs * heads.row] * 2,
        *(panels_of_rows(heads, pairs, size) for size in (depth, width)),
        heads.rows,
        packed_size(heads.rows, depth, memory.has_gaps[0]),
        packed_size(heads.rows, width, memory.has_gaps[3]),
        *(
            heads.keys * size * _sums_apart(place, outputs, parts)
            for place, size in zip(sums, (depth, width), strict=True)
        ),
    )
    thread_scratch = tuple(size * heads.item for size in own)
    kernel_step = KernelStep(write, groups * parts, heads.cycles * GRADIENT_PRODUCTS / FORWARD_PRODUCTS)
    if parts == 1:
        return KernelSteps((kernel_step,), thread_scratch=thread_scratch)
    results = [groups * heads.keys * size for size in (depth, width)]
    joins = [sum_of_parts(heads, place, parts, i) for i, place in enumerate(sums)]
    return KernelSteps((kernel_step, *joins), tuple(parts * size * heads.item for size in results), thread_scratch)


def _sums_apart(place: ResultPlace, outputs: Sequence[TensorType], parts: int) -> bool:
    """Return True if a gradient is summed in scratch of the thread: see `sums_of`."""
    return parts == 1 and (place.has_gaps or outputs[place.number].dtype == "bfloat16")


class _Gradients:
    """The gradients of a work item.

    Attributes:
        keys, values: panels of keys and values, with pairs of their elements.
        key_rows: panels of rows of keys, with pairs of keys.
        weights, gradients: weights of a block and their gradients; those of scores follow at the start of each row.
        of_weights, of_scores: weights and gradients of scores of a batch of blocks, with pairs of queries.
        query_rows, dy_rows: panels of rows of queries and of the gradient, with pairs of queries.
        line: a number for each query of a block.
        queries, shares: packed queries and their gradients, if their rows do not have whole pairs.
    """

    def __init__(self, context: KernelContext, heads: Heads, memory: MemoryLayout, parts: int) -> None:
        self.context, self.heads, self.f = context, heads, context.f
        *operands, self.mask = context.inputs
        self.q, self.k, self.v, self.dy = memory.operands_of(operands)
        self.dq, *self.results = memory.results_of(context.outputs)
        if parts > 1:
            layouts = enumerate(layouts_of_parts(heads, parts))
            self.results = [rows_of(context.shared_scratch(i, heads.element), x) for i, x in layouts]
        self.sums = sums_of(context, heads, self.results, (KEY_SUMS, VALUE_SUMS))
        self.products = PairProducts(context, heads)
        own = [context.thread_scratch(i, heads.element) for i in range(OWN)]
        self.keys, self.values, self.key_rows, self.weights, self.gradients = own[:5]
        self.of_weights, self.of_scores, self.query_rows, self.dy_rows, self.line, self.queries, self.shares = own[5:]
        self.finite, self.word, self.most = self.f.local(), self.f.local(), self.f.local()

    def begin_group(self, group: Value, item: Value) -> None:
        """Begin a head of keys and values: pack both, and set this item's sums of their gradients to 0."""
        f, heads, products = self.f, self.heads, self.products
        k, v = self.k.of(group), self.v.of(group)
        products.key_panels(k, heads.depth, self.keys)
        products.key_panels(v, heads.width, self.values)
        products.row_panels(k, heads.keys, heads.depth, self.key_rows, pairs_of(heads.keys))
        for to in self.sums:
            zeros(f, to.of(item).at, heads.keys * to.size, products.vector)
        if heads.leaves_out:
            finite = products.are_finite([(k, heads.keys, heads.depth), (v, heads.keys, heads.width)])
            f.store(where(finite, f.index(1), 0), self.finite)
            for head in f.range(group * heads.of_group, (group + 1) * heads.of_group):
                finite = products.are_finite([(x.of(f.index(head)), heads.queries, x.size) for x in (self.q, self.dy)])
                f.store(where(finite, f.load(self.finite), 0), self.finite)

    def end_group(self, group: Value) -> None:
        """End a head of keys and values: write its gradients, if they were summed apart from them."""
        copy_sums(self.f, self.sums, self.results, group)

    def write(self, head: Value, number: Index, item: Value) -> None:
        """Add the contributions of some blocks of queries, from a numbered one on, to all gradients."""
        f, heads, half = self.f, self.heads, self.products.half
        f.store(f.index(0), self.most)
        for i in f.range(0, heads.together):
            at = f.index(number) + i
            with f.when(at < heads.blocks):
                for block in blocks_of(self.context, heads, head, at):
                    self._block(head, block, f.index(i) * half)
        blocks: Index = heads.blocks
        if heads.blocks > heads.together:
            blocks = minimum(heads.blocks - f.index(number), heads.together)
        is_last = f.index(number) + blocks >= heads.blocks
        stop = f.index(blocks) * half - where(is_last, f.index(half - pairs_of(heads.last)), 0)
        dk, dv = (x.of(item) for x in self.sums)
        for key in f.range(0, f.load(self.most) if heads.leaves_out else heads.keys, heads.panel):
            start: Index = 0
            if heads.leaves_out and heads.causal:
                first = f.index(first_of_panel(heads, key)) - number * heads.rows
                start = maximum(first, 0) // heads.rows * half
                start = where(f.load(self.finite).equal(1), start, 0)
            for left, right, size, to in (
                (self.of_weights, self.dy_rows, heads.width, dv),
                (self.of_scores, self.query_rows, heads.depth, dk),
            ):
                self.products.of_keys(left, right, size, start, stop, key, to)

    def _block(self, head: Value, block: Block, pair: Value) -> None:
        """Compute the weights of a block, gradients of scores and of queries; its pairs of queries begin at `pair`."""
        f, heads, products, rows = self.f, self.heads, self.products, block.rows
        seen = seen_keys(self.context, heads, block, self.mask, self.finite, self.word)
        q, dy, dq = (x.of(head).moved(block.first, 0) for x in (self.q, self.dy, self.dq))
        room = heads.together * products.half
        for source, size, to in ((q, heads.depth, self.query_rows), (dy, heads.width, self.dy_rows)):
            products.row_panels(source, rows, size, to, room, pair)
        left = products.left_rows(q, rows, heads.depth, self.queries)
        products.by_keys(rows, left, self.keys, heads.depth, seen, self.weights, scale=heads.scale, beyond=-inf)
        columns = computed(heads, seen, heads.wide)
        tensors = [self.q, self.k, self.v, self.dy, self.dq, *self.results]
        ahead = ahead_of(tensors, head, heads.of_group)
        Softmax(self.context, heads, block, self.mask, columns).all_rows(self.weights, self.line, ahead)
        left = products.left_rows(dy, rows, heads.width, self.shares)
        products.by_keys(rows, left, self.values, heads.width, seen, self.gradients)
        self._of_scores(rows, columns, pair)

        def stored(x: Value, i: Index, j: Index, count: int) -> None:
            store_as(x, dq.moved(i, j).at, count)

        products.over_keys(rows, Matrix(self.gradients, heads.row), self.key_rows, heads.depth, seen, stored)
        if heads.leaves_out:
            f.store(maximum(f.load(self.most), computed(heads, seen, heads.keys)), self.most)

    def _of_scores(self, rows: int, columns: Index, pair: Value) -> None:
        """Write factors of weights and of gradients of scores; both are 0 for hidden keys."""
        whole = rows // ROWS_TOGETHER * ROWS_TOGETHER
        for i in self.f.range(0, whole, ROWS_TOGETHER):
            self._of_rows(i, ROWS_TOGETHER, columns, pair)
        if whole < rows:
            self._of_rows(whole, rows - whole, columns, pair)

    def _of_rows(self, first: Index, count: int, columns: Index, pair: Value) -> None:
        f, heads, lanes = self.f, self.heads, self.heads.lanes
        indices = [(first + i) * heads.row for i in range(count)]
        factors = [f.load(self.line, first + i) for i in range(count)]
        totals = in_order(heads, sums_of_products(f, heads, self.weights, self.gradients, indices, columns))
        shares = [f.splat(total * factor, lanes) for total, factor in zip(totals, factors, strict=True)]
        pairs = [(pair + (f.index(first) // 2 + i)) * heads.row for i in range(pairs_of(count))]
        for j in f.range(0, columns, lanes):
            weights: list[Value] = []
            scores: list[Value] = []
            for at, factor, share in zip(indices, factors, shares, strict=True):
                weight = f.load(self.weights, at + j, lanes) * factor
                score = (f.load(self.gradients, at + j, lanes) - share) * weight * heads.scale
                weights.append(narrowed(weight, BFLOAT16))
                scores.append(narrowed(score, BFLOAT16))
                f.store(scores[-1], f.cast(self.gradients + at, BFLOAT16), j)
            for to, found in ((self.of_weights, weights), (self.of_scores, scores)):
                for at, first_of, second in zip(pairs, found[::2], [*found[1::2], None], strict=False):
                    f.store(_paired(first_of, second), to, at + j)
        if heads.leaves_out:
            for to in (self.of_weights, self.of_scores):
                self._clear([to + at for at in pairs], columns)

    def _clear(self, rows: Sequence[Value], columns: Index) -> None:
        """Write zeros to rows of pairs, for the keys from `columns` on."""
        f, heads = self.f, self.heads
        for j in f.range(columns, heads.wide, heads.lanes):
            for row in rows:
                f.store(f.constant(self.products.vector, 0), row, j)


def _paired(first: Value, second: Value | None) -> Value:
    """Return words with these elements of bfloat16; the second ones are 0 if there are none."""
    return paired(first, second if second is not None else first, None if second is not None else _nothing(first))


def _nothing(x: Value) -> Value:
    return x.function.constant(UINT32, 0)

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
from runtime.codegen.kernels.attention.backward import FORWARD_PRODUCTS, GRADIENT_PRODUCTS, WANTED_ITEMS
from runtime.codegen.kernels.attention.heads import Block, Heads, blocks_of, heads_of
from runtime.codegen.kernels.attention.pairs import (
    PairProducts,
    packed_size,
    pairs_of,
    panels_of_keys,
    panels_of_rows,
)
from runtime.codegen.kernels.attention.products import computed
from runtime.codegen.kernels.attention.seen import seen_keys
from runtime.codegen.kernels.attention.weights import ROWS_TOGETHER, Softmax, in_order
from runtime.codegen.kernels.copies import zeros
from runtime.codegen.kernels.matmul import Matrix
from runtime.codegen.kernels.pair_products import paired
from runtime.codegen.kernels.partial_sums import reduction_step
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.machine import Target

OWN: Final = 12
"""Number of scratch memories of a thread; `_Gradients` names them."""


def pair_backward(
    target: Target, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType], attributes: Mapping[str, Any]
) -> KernelSteps:
    """Return the kernel steps of the gradient."""
    *operands, mask = inputs
    q, k, v, _ = (x for x in operands if x is not None)
    heads = heads_of(target, q, k, v, mask, attributes["causal"], attributes["scale"])
    batches = heads.of_group * -(-heads.blocks // heads.together)
    groups = heads.images * heads.groups
    parts = min(batches, -(-WANTED_ITEMS // groups)) if groups < WANTED_ITEMS else 1

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        f, gradients = context.f, _Gradients(context, heads, parts)
        for item in f.range(start, stop):
            part, group = f.index(item) // groups, f.index(item) % groups
            gradients.begin_group(group, f.index(item))
            for batch in f.range(part * batches // parts, (part + 1) * batches // parts):
                number = batch % (batches // heads.of_group) * heads.together if heads.blocks > heads.together else 0
                head = group * heads.of_group + batch // (batches // heads.of_group)
                gradients.write(group, head, number, f.index(item))

    pairs, depth, width = heads.together * pairs_of(heads.rows), heads.depth, heads.width
    own = (
        *(panels_of_keys(heads, size) for size in (depth, width)),
        panels_of_rows(heads, pairs_of(heads.keys), depth),
        *[heads.rows * heads.row] * 2,
        *[pairs * heads.row] * 2,
        *(panels_of_rows(heads, pairs, size) for size in (depth, width)),
        heads.rows,
        *(packed_size(heads.rows, size) for size in (depth, width)),
    )
    thread_scratch = tuple(size * heads.item for size in own)
    kernel_step = KernelStep(write, groups * parts, heads.cycles * GRADIENT_PRODUCTS / FORWARD_PRODUCTS)
    if parts == 1:
        return KernelSteps((kernel_step,), thread_scratch=thread_scratch)
    results = [groups * heads.keys * size for size in (depth, width)]
    joins = [reduction_step(heads.element, heads.lanes, size, parts, i, 1 + i) for i, size in enumerate(results)]
    return KernelSteps((kernel_step, *joins), tuple(parts * size * heads.item for size in results), thread_scratch)


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

    def __init__(self, context: KernelContext, heads: Heads, parts: int) -> None:
        self.context, self.heads, self.f = context, heads, context.f
        *operands, self.mask = context.inputs
        self.q, self.k, self.v, self.dy = (x for x in operands if x is not None)
        self.dq, self.dk, self.dv = context.outputs
        if parts > 1:
            self.dk, self.dv = (context.shared_scratch(i, heads.element) for i in range(2))
        self.products = PairProducts(context, heads)
        own = [context.thread_scratch(i, heads.element) for i in range(OWN)]
        self.keys, self.values, self.key_rows, self.weights, self.gradients = own[:5]
        self.of_weights, self.of_scores, self.query_rows, self.dy_rows, self.line, self.queries, self.shares = own[5:]
        self.finite, self.word, self.most = self.f.local(), self.f.local(), self.f.local()

    def begin_group(self, group: Value, item: Value) -> None:
        """Begin a head of keys and values: pack both, and set this item's sums of their gradients to 0."""
        f, heads, products = self.f, self.heads, self.products
        of_keys, of_values = heads.keys * heads.depth, heads.keys * heads.width
        k, v = self.k + group * of_keys, self.v + group * of_values
        products.key_panels(Matrix(k, heads.depth), heads.depth, self.keys)
        products.key_panels(Matrix(v, heads.width), heads.width, self.values)
        room = pairs_of(heads.keys)
        products.row_panels(Matrix(k, heads.depth), heads.keys, heads.depth, self.key_rows, room)
        for to, size in ((self.dk + item * of_keys, of_keys), (self.dv + item * of_values, of_values)):
            zeros(f, to, size, products.vector)
        if heads.leaves_out:
            rows = heads.of_group * heads.queries
            finite = products.is_finite(k, of_keys) & products.is_finite(v, of_values)
            for x, size in ((self.q, heads.depth), (self.dy, heads.width)):
                finite = finite & products.is_finite(x + group * rows * size, rows * size)
            f.store(where(finite, f.index(1), 0), self.finite)

    def write(self, group: Value, head: Value, number: Index, item: Value) -> None:
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
        k, v = item * (heads.keys * heads.depth), item * (heads.keys * heads.width)
        for key in f.range(0, f.load(self.most) if heads.leaves_out else heads.keys, heads.panel):
            start: Index = 0
            if heads.leaves_out and heads.causal:
                start = maximum(f.index(key) - number * heads.rows, 0) // heads.rows * half
                start = where(f.load(self.finite).equal(1), start, 0)
            for left, right, size, to in (
                (self.of_weights, self.dy_rows, heads.width, self.dv + v),
                (self.of_scores, self.query_rows, heads.depth, self.dk + k),
            ):
                self.products.of_keys(left, right, size, start, stop, key, to)

    def _block(self, head: Value, block: Block, pair: Value) -> None:
        """Compute the weights of a block, gradients of scores and of queries; its pairs of queries begin at `pair`."""
        f, heads, products, rows = self.f, self.heads, self.products, block.rows
        query = head * heads.queries + block.first
        seen = seen_keys(self.context, heads, block, self.mask, self.finite, self.word)
        q = Matrix(self.q + query * heads.depth, heads.depth)
        dy = Matrix(self.dy + query * heads.width, heads.width)
        room = heads.together * products.half
        for source, size, to in ((q, heads.depth, self.query_rows), (dy, heads.width, self.dy_rows)):
            products.row_panels(source, rows, size, to, room, pair)
        left = products.left_rows(q, rows, heads.depth, self.queries)
        products.by_keys(rows, left, self.keys, heads.depth, seen, self.weights, scale=heads.scale, beyond=-inf)
        columns = computed(heads, seen, heads.wide)
        Softmax(self.context, heads, block, self.mask, columns).all_rows(self.weights, self.line)
        left = products.left_rows(dy, rows, heads.width, self.shares)
        products.by_keys(rows, left, self.values, heads.width, seen, self.gradients)
        self._of_scores(rows, columns, pair)
        dq = self.dq + query * heads.depth

        def stored(x: Value, i: Index, j: Index, count: int) -> None:
            f.store(x, dq + (i * heads.depth + j), 0, count)

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
        totals = self._totals(indices, columns)
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

    def _totals(self, indices: Sequence[Index], columns: Index) -> list[Value]:
        """Return the sums of products of weights and their gradients, by row."""
        f, heads, lanes, vectors = self.f, self.heads, self.heads.lanes, self.heads.nominal_vectors
        nothing = [f.constant(self.products.vector, 0)] * (len(indices) * vectors)
        sums = f.loop(0, columns, heads.sum_lanes, nothing)
        for j, totals in sums:
            places = [at + j + v * lanes for at in indices for v in range(vectors)]
            products = [(f.load(self.weights, at, lanes), f.load(self.gradients, at, lanes)) for at in places]
            sums.carry([f.fma(x, dx, total) for (x, dx), total in zip(products, totals, strict=True)])
        return in_order(heads, sums.results)

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

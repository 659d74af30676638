"""The gradients of attention: a work item is a head of keys and values, with the blocks of queries that read it.

With weights p and their gradient dp, the gradient of the scores is p * (dp - sum(p * dp)). If there are few heads, a
work item has a part of the queries, and later kernel steps add the gradients of keys and values of all parts, in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from prograd_proto import TensorType
from runtime.codegen.ir import Index, Value
from runtime.codegen.ir.words import across, maximum, minimum, where
from runtime.codegen.kernels.attention.heads import Block, Heads, blocks_of, heads_of
from runtime.codegen.kernels.attention.panels import panels_of, write_panels
from runtime.codegen.kernels.attention.products import by_keys, computed, of_keys, over_keys
from runtime.codegen.kernels.attention.seen import are_finite, seen_keys
from runtime.codegen.kernels.attention.weights import ROWS_TOGETHER, write_weights
from runtime.codegen.kernels.matmul import Matrix
from runtime.codegen.kernels.nest import along
from runtime.codegen.kernels.partial_sums import reduction_step
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.machine import Target

KEYS, VALUES, WEIGHTS, GRADIENTS, QUERY_NUMBERS = range(5)
"""Scratch of the thread: panels of keys and of values, weights, their gradients, and a number for each query."""

WANTED_ITEMS: Final = 8
"""Number of work items that gives every thread a share."""

FORWARD_PRODUCTS, GRADIENT_PRODUCTS = 2, 5
"""Number of products of attention, and of its gradient."""


def backward(
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

    weights = heads.together * heads.rows * heads.row
    sizes = (panels_of(heads, heads.depth), panels_of(heads, heads.width), weights, weights, heads.rows)
    own = tuple(size * heads.item for size in sizes)
    kernel_step = KernelStep(write, groups * parts, heads.cycles * GRADIENT_PRODUCTS / FORWARD_PRODUCTS)
    if parts == 1:
        return KernelSteps((kernel_step,), thread_scratch=own)
    results = [groups * heads.keys * size for size in (heads.depth, heads.width)]
    joins = [reduction_step(heads.element, heads.lanes, size, parts, i, 1 + i) for i, size in enumerate(results)]
    return KernelSteps((kernel_step, *joins), tuple(parts * size * heads.item for size in results), own)


class _Gradients:
    def __init__(self, context: KernelContext, heads: Heads, parts: int) -> None:
        self.context, self.heads, self.f = context, heads, context.f
        *operands, self.mask = context.inputs
        self.q, self.k, self.v, self.dy = (x for x in operands if x is not None)
        self.dq, self.dk, self.dv = context.outputs
        if parts > 1:
            self.dk, self.dv = (context.shared_scratch(i, heads.element) for i in range(2))
        own = [context.thread_scratch(i, heads.element) for i in range(QUERY_NUMBERS + 1)]
        self.keys, self.values, self.weights, self.gradients, self.line = own
        self.finite, self.word, self.most = self.f.local(), self.f.local(), self.f.local()

    def begin_group(self, group: Value, item: Value) -> None:
        """Begin a head of keys and values: pack both, and set this item's sums of their gradients to 0."""
        f, heads = self.f, self.heads
        of_keys, of_values = heads.keys * heads.depth, heads.keys * heads.width
        write_panels(self.context, heads, self.k + group * of_keys, heads.depth, self.keys)
        write_panels(self.context, heads, self.v + group * of_values, heads.width, self.values)
        for to, size in ((self.dk + item * of_keys, of_keys), (self.dv + item * of_values, of_values)):
            _clear(self.context, heads, to, size)
        if heads.leaves_out:
            rows = heads.of_group * heads.queries
            parts = [(self.k + group * of_keys, of_keys), (self.v + group * of_values, of_values)]
            parts += [(x + group * rows * n, rows * n) for x, n in ((self.q, heads.depth), (self.dy, heads.width))]
            f.store(where(are_finite(f, heads, parts), f.index(1), 0), self.finite)

    def write(self, group: Value, head: Value, number: Index, item: Value) -> None:
        """Add the contributions of some blocks of queries, from a numbered one on, to all gradients."""
        f, heads = self.f, self.heads
        first = number * heads.rows
        f.store(f.index(0), self.most)
        for i in f.range(0, heads.together):
            at = f.index(number) + i
            with f.when(at < heads.blocks):
                for block in blocks_of(self.context, heads, head, at):
                    self._block(group, head, block, block.first - first)
        stop: Index = heads.queries
        if heads.blocks > heads.together:
            stop = minimum(heads.queries - f.index(first), heads.together * heads.rows)
        query = head * heads.queries + first
        k, v = item * (heads.keys * heads.depth), item * (heads.keys * heads.width)
        for key in f.range(0, f.load(self.most) if heads.leaves_out else heads.keys, heads.panel):
            start: Index = 0
            if heads.leaves_out and heads.causal:
                start = maximum(f.index(key) - first, 0) // heads.rows * heads.rows
                start = where(f.load(self.finite).equal(1), start, 0)
            for left, right, size, to in (
                (self.weights, self.dy + query * heads.width, heads.width, self.dv + v),
                (self.gradients, self.q + query * heads.depth, heads.depth, self.dk + k),
            ):
                of_keys(self.context, heads, left, right, size, start, stop, key, to)

    def _block(self, group: Value, head: Value, block: Block, row: Index) -> None:
        """Compute the weights of a block and their gradients, from `row` on, and the gradients of its queries."""
        f, heads = self.f, self.heads
        query = head * heads.queries + block.first
        seen = seen_keys(self.context, heads, block, self.mask, self.finite, self.word)
        p, dp = (x + row * heads.row for x in (self.weights, self.gradients))
        q, dy, dq = self.q + query * heads.depth, self.dy + query * heads.width, self.dq + query * heads.depth
        write_weights(self.context, heads, block, q, self.keys, self.mask, seen, p, self.line)
        by_keys(self.context, heads, block.rows, Matrix(dy, heads.width), self.values, seen, dp)
        self._of_scores(p, dp, block.rows, computed(heads, seen, heads.wide))

        def stored(x: Value, i: Index, j: Index, count: int) -> None:
            f.store(x, dq + (i * heads.depth + j), 0, count)

        keys = Matrix(self.k + group * (heads.keys * heads.depth), heads.depth)
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
        sums = f.loop(0, columns, lanes, [f.constant(heads.element.of(lanes), 0)] * count)
        for j, totals in sums:
            products = [(f.load(p, at + j, lanes), f.load(dp, at + j, lanes)) for at in indices]
            sums.carry([f.fma(x, dx, total) for (x, dx), total in zip(products, totals, strict=True)])
        factors = [f.load(self.line, first + i) for i in range(count)]
        shares = [
            f.splat(across(total, lambda a, b: a + b) * factor, lanes)
            for total, factor in zip(sums.results, factors, strict=True)
        ]
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


def _clear(context: KernelContext, heads: Heads, to: Value, size: int) -> None:
    def zero(i: Index, lanes: int, count: int) -> None:
        context.f.store(context.f.constant(heads.element.of(lanes), 0), to, i, count if lanes else None)

    along(context.f, size, heads.lanes, zero)

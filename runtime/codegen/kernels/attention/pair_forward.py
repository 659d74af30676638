"""The results of attention of bfloat16: as those of float32, by products of pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from prograd_proto import TensorType
from runtime.codegen.ir import Index, Value
from runtime.codegen.ir.words import where
from runtime.codegen.kernels.attention.heads import Block, Heads, heads_of, over_blocks
from runtime.codegen.kernels.attention.pairs import (
    PairProducts,
    packed_size,
    pairs_of,
    panels_of_keys,
    panels_of_rows,
    store_as,
)
from runtime.codegen.kernels.attention.products import computed
from runtime.codegen.kernels.attention.rows import MemoryLayout, ResultPlace, ahead_of, contiguous, own_places
from runtime.codegen.kernels.attention.seen import seen_keys
from runtime.codegen.kernels.attention.weights import Softmax
from runtime.codegen.kernels.matmul import Matrix
from runtime.codegen.kernels.moves import Layout
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.machine import Target

KEYS, VALUES, WEIGHTS, QUERY_NUMBERS, QUERIES = range(5)
"""Scratch of the thread: panels of keys and values, weights, a number for each query, and packed queries."""


def pair_forward(
    target: Target,
    inputs: Sequence[TensorType | None],
    outputs: Sequence[TensorType],
    attributes: Mapping[str, Any],
    layouts: Sequence[Layout] = (),
    places: Sequence[ResultPlace] = (),
) -> KernelSteps:
    """Return the kernel step of attention; the arguments are those of `forward`. The result may be bfloat16."""
    *operands, mask = inputs
    q, k, v = (x for x in operands if x is not None)
    heads = heads_of(target, q, k, v, mask, attributes["causal"], attributes["scale"])
    memory = MemoryLayout(layouts or contiguous([q, k, v]), places or own_places([(*q.static_shape[:3], heads.width)]))

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        results = _Results(context, heads, memory)
        over_blocks(context, heads, start, stop, results.begin_group, results.write)

    sizes = (
        panels_of_keys(heads, heads.depth),
        panels_of_rows(heads, pairs_of(heads.keys), heads.width),
        heads.rows * heads.row,
        heads.rows,
        packed_size(heads.rows, heads.depth, memory.has_gaps[0]),
    )
    items = heads.images * heads.heads * heads.blocks
    return KernelSteps(
        (KernelStep(write, items, heads.cycles),), thread_scratch=tuple(size * heads.item for size in sizes)
    )


class _Results:
    def __init__(self, context: KernelContext, heads: Heads, memory: MemoryLayout) -> None:
        self.context, self.heads, self.f = context, heads, context.f
        *operands, self.mask = context.inputs
        self.q, self.k, self.v = memory.operands_of(operands)
        [self.y] = memory.results_of(context.outputs)
        self.products = PairProducts(context, heads)
        own = [context.thread_scratch(i, heads.element) for i in range(QUERIES + 1)]
        self.keys, self.values, self.weights, self.line, self.queries = own
        self.finite, self.word = self.f.local(), self.f.local()

    def begin_group(self, group: Value) -> None:
        """Begin a group of heads: pack its keys and values."""
        heads, products = self.heads, self.products
        k, v = self.k.of(group), self.v.of(group)
        products.key_panels(k, heads.depth, self.keys)
        products.row_panels(v, heads.keys, heads.width, self.values, pairs_of(heads.keys))
        if heads.leaves_out:
            finite = products.are_finite([(v, heads.keys, heads.width)])
            self.f.store(where(finite, self.f.index(1), 0), self.finite)

    def write(self, head: Value, block: Block) -> None:
        """Write the results of a block."""
        f, heads, products = self.f, self.heads, self.products
        q, to = (x.of(head).moved(block.first, 0) for x in (self.q, self.y))
        seen: Index = seen_keys(self.context, heads, block, self.mask, self.finite, self.word)
        left = products.left_rows(q, block.rows, heads.depth, self.queries)
        products.by_keys(block.rows, left, self.keys, heads.depth, seen, self.weights, scale=heads.scale, beyond=-inf)
        columns = computed(heads, seen, heads.wide)
        softmax = Softmax(self.context, heads, block, self.mask, columns, rounds=True)
        softmax.all_rows(self.weights, self.line, ahead_of([self.q, self.k, self.v, self.y], head, heads.of_group))

        def divided(x: Value, i: Index, j: Index, count: int) -> None:
            store_as(x * f.load(self.line, i), to.moved(i, j).at, count)

        products.over_keys(block.rows, Matrix(self.weights, heads.row), self.values, heads.width, seen, divided)

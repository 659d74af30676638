"""The results of attention of bfloat16: as those of float32, by products of pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from prograd_proto import TensorType
from runtime.codegen.ir import Index, Value
from runtime.codegen.ir.words import where
from runtime.codegen.kernels.attention.heads import Block, Heads, heads_of, over_blocks
from runtime.codegen.kernels.attention.pairs import PairProducts, packed_size, pairs_of, panels_of_keys, panels_of_rows
from runtime.codegen.kernels.attention.products import computed
from runtime.codegen.kernels.attention.seen import seen_keys
from runtime.codegen.kernels.attention.weights import Softmax
from runtime.codegen.kernels.matmul import Matrix
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.machine import Target

KEYS, VALUES, WEIGHTS, QUERY_NUMBERS, QUERIES = range(5)
"""Scratch of the thread: panels of keys and values, weights, a number for each query, and packed queries."""


def pair_forward(
    target: Target, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType], attributes: Mapping[str, Any]
) -> KernelSteps:
    """Return the kernel step of attention."""
    *operands, mask = inputs
    q, k, v = (x for x in operands if x is not None)
    heads = heads_of(target, q, k, v, mask, attributes["causal"], attributes["scale"])

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        results = _Results(context, heads)
        over_blocks(context, heads, start, stop, results.begin_group, results.write)

    sizes = (
        panels_of_keys(heads, heads.depth),
        panels_of_rows(heads, pairs_of(heads.keys), heads.width),
        heads.rows * heads.row,
        heads.rows,
        packed_size(heads.rows, heads.depth),
    )
    items = heads.images * heads.heads * heads.blocks
    return KernelSteps(
        (KernelStep(write, items, heads.cycles),), thread_scratch=tuple(size * heads.item for size in sizes)
    )


class _Results:
    def __init__(self, context: KernelContext, heads: Heads) -> None:
        self.context, self.heads, self.f = context, heads, context.f
        *operands, self.mask = context.inputs
        self.q, self.k, self.v = (x for x in operands if x is not None)
        self.products = PairProducts(context, heads)
        own = [context.thread_scratch(i, heads.element) for i in range(QUERIES + 1)]
        self.keys, self.values, self.weights, self.line, self.queries = own
        self.finite, self.word = self.f.local(), self.f.local()

    def begin_group(self, group: Value) -> None:
        """Begin a group of heads: pack its keys and values."""
        heads, products = self.heads, self.products
        k, v = self.k + group * (heads.keys * heads.depth), self.v + group * (heads.keys * heads.width)
        products.key_panels(Matrix(k, heads.depth), heads.depth, self.keys)
        room = pairs_of(heads.keys)
        products.row_panels(Matrix(v, heads.width), heads.keys, heads.width, self.values, room)
        if heads.leaves_out:
            finite = products.is_finite(v, heads.keys * heads.width)
            self.f.store(where(finite, self.f.index(1), 0), self.finite)

    def write(self, head: Value, block: Block) -> None:
        """Write the results of a block."""
        f, heads, [y], products = self.f, self.heads, self.context.outputs, self.products
        query = head * heads.queries + block.first
        seen: Index = seen_keys(self.context, heads, block, self.mask, self.finite, self.word)
        q = Matrix(self.q + query * heads.depth, heads.depth)
        left = products.left_rows(q, block.rows, heads.depth, self.queries)
        products.by_keys(block.rows, left, self.keys, heads.depth, seen, self.weights, scale=heads.scale, beyond=-inf)
        columns = computed(heads, seen, heads.wide)
        softmax = Softmax(self.context, heads, block, self.mask, columns, rounds=True)
        softmax.all_rows(self.weights, self.line)
        to = y + query * heads.width

        def divided(x: Value, i: Index, j: Index, count: int) -> None:
            f.store(x * f.load(self.line, i), to + (i * heads.width + j), 0, count)

        products.over_keys(block.rows, Matrix(self.weights, heads.row), self.values, heads.width, seen, divided)

"""The results of attention: a work item is a head and a block of its queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prograd_proto import TensorType
from runtime.codegen.ir import Index, Value
from runtime.codegen.ir.words import where
from runtime.codegen.kernels.attention.heads import Block, Heads, blocks_of, heads_of
from runtime.codegen.kernels.attention.panels import panels_of, write_panels
from runtime.codegen.kernels.attention.products import over_keys
from runtime.codegen.kernels.attention.seen import are_finite, seen_keys
from runtime.codegen.kernels.attention.weights import write_weights
from runtime.codegen.kernels.matmul import Matrix
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.machine import Target

PANELS, WEIGHTS, QUERY_NUMBERS = range(3)
"""Scratch of the thread: panels of keys, weights, and a number for each query."""


def forward(
    target: Target, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType], attributes: Mapping[str, Any]
) -> KernelSteps:
    """Return the kernel step of attention."""
    *operands, mask = inputs
    q, k, v = (x for x in operands if x is not None)
    heads = heads_of(target, q, k, v, mask, attributes["causal"], attributes["scale"])

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        f, results = context.f, _Results(context, heads)
        for item in f.range(start, stop):
            item = f.index(item)
            head, number = item // heads.blocks, item % heads.blocks
            is_new = number.equal(0) if heads.of_group == 1 else (item % (heads.blocks * heads.of_group)).equal(0)
            with f.when(is_new | item.equal(start)):
                results.begin_group(head // heads.of_group)
            for block in blocks_of(context, heads, head, number):
                results.write(head, block)

    sizes = (panels_of(heads, heads.depth), heads.rows * heads.row, heads.rows)
    items = heads.images * heads.heads * heads.blocks
    return KernelSteps(
        (KernelStep(write, items, heads.cycles),), thread_scratch=tuple(size * heads.item for size in sizes)
    )


class _Results:
    def __init__(self, context: KernelContext, heads: Heads) -> None:
        self.context, self.heads, self.f = context, heads, context.f
        *operands, self.mask = context.inputs
        self.q, self.k, self.v = (x for x in operands if x is not None)
        self.panels, self.weights, self.line = (
            context.thread_scratch(i, heads.element) for i in (PANELS, WEIGHTS, QUERY_NUMBERS)
        )
        self.finite, self.word = self.f.local(), self.f.local()

    def begin_group(self, group: Value) -> None:
        """Begin a group of heads: pack its keys and values."""
        heads = self.heads
        write_panels(self.context, heads, self.k + group * (heads.keys * heads.depth), heads.depth, self.panels)
        if heads.leaves_out:
            size = heads.keys * heads.width
            finite = are_finite(self.f, heads, [(self.v + group * size, size)])
            self.f.store(where(finite, self.f.index(1), 0), self.finite)

    def write(self, head: Value, block: Block) -> None:
        """Write the results of a block."""
        f, heads, [y] = self.f, self.heads, self.context.outputs
        query = head * heads.queries + block.first
        q, to = self.q + query * heads.depth, y + query * heads.width
        seen: Index = seen_keys(self.context, heads, block, self.mask, self.finite, self.word)
        write_weights(self.context, heads, block, q, self.panels, self.mask, seen, self.weights, self.line)

        def divided(x: Value, i: Index, j: Index, count: int) -> None:
            f.store(x * f.load(self.line, i), to + (i * heads.width + j), 0, count)

        values = Matrix(self.v + head // heads.of_group * (heads.keys * heads.width), heads.width)
        weights = Matrix(self.weights, heads.row)
        over_keys(self.context, heads, block.rows, weights, values, heads.width, seen, divided)

"""The results of attention: a work item is a head and a block of its queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prograd_proto import TensorType
from runtime.codegen.ir import Index, Value
from runtime.codegen.ir.words import where
from runtime.codegen.kernels.attention.heads import Block, Heads, heads_of, over_blocks
from runtime.codegen.kernels.attention.panels import panels_of, write_panels
from runtime.codegen.kernels.attention.products import over_keys
from runtime.codegen.kernels.attention.rows import (
    MemoryLayout,
    ResultPlace,
    ahead_of,
    contiguous,
    own_places,
    packed,
    packed_rows,
)
from runtime.codegen.kernels.attention.seen import are_finite, seen_keys
from runtime.codegen.kernels.attention.weights import write_weights
from runtime.codegen.kernels.matmul import Matrix
from runtime.codegen.kernels.moves import Layout
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.machine import Target

PANELS, WEIGHTS, QUERY_NUMBERS, PACKED_VALUES, PACKED_QUERIES = range(5)
"""Scratch of the thread: panels of keys, weights, a number for each query, and contiguous values and queries."""


def forward(
    target: Target,
    inputs: Sequence[TensorType | None],
    outputs: Sequence[TensorType],
    attributes: Mapping[str, Any],
    layouts: Sequence[Layout] = (),
    places: Sequence[ResultPlace] = (),
) -> KernelSteps:
    """Return the kernel step of attention.

    Args:
        target: the target of the code.
        inputs: types of queries, keys, values and, if there is one, the mask.
        outputs: types of the results.
        attributes: attributes by name.
        layouts: layouts of queries, keys and values; they are contiguous if none are given.
        places: the position of the result; it is a tensor of its own if none is given.
    """
    *operands, mask = inputs
    q, k, v = (x for x in operands if x is not None)
    heads = heads_of(target, q, k, v, mask, attributes["causal"], attributes["scale"])
    memory = MemoryLayout(layouts or contiguous([q, k, v]), places or own_places([(*q.static_shape[:3], heads.width)]))

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        results = _Results(context, heads, memory)
        over_blocks(context, heads, start, stop, results.begin_group, results.write)

    has_gaps = memory.has_gaps
    copies = has_gaps[2] * heads.keys * heads.width, has_gaps[0] * heads.rows * heads.depth
    sizes = (panels_of(heads, heads.depth), heads.rows * heads.row, heads.rows, *copies)
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
        self.panels, self.weights, self.line = (
            context.thread_scratch(i, heads.element) for i in (PANELS, WEIGHTS, QUERY_NUMBERS)
        )
        self.finite, self.word = self.f.local(), self.f.local()

    def begin_group(self, group: Value) -> None:
        """Begin a group of heads: pack its keys and values."""
        heads = self.heads
        write_panels(self.context, heads, self.k.of(group), heads.depth, self.panels)
        values = packed_rows(self.context, self.v, self.v.of(group), heads.keys, PACKED_VALUES)
        if heads.leaves_out:
            finite = are_finite(self.f, heads, [(values, heads.keys, heads.width)])
            self.f.store(where(finite, self.f.index(1), 0), self.finite)

    def write(self, head: Value, block: Block) -> None:
        """Write the results of a block."""
        f, heads = self.f, self.heads
        q, to = (x.of(head).moved(block.first, 0) for x in (self.q, self.y))
        q = packed_rows(self.context, self.q, q, block.rows, PACKED_QUERIES)
        seen: Index = seen_keys(self.context, heads, block, self.mask, self.finite, self.word)
        ahead = ahead_of([self.q, self.k, self.v, self.y], head, heads.of_group)
        write_weights(self.context, heads, block, q, self.panels, self.mask, seen, self.weights, self.line, ahead)

        def divided(x: Value, i: Index, j: Index, count: int) -> None:
            f.store(x * f.load(self.line, i), to.moved(i, j).at, 0, count)

        values = packed(self.context, self.v, self.v.of(head // heads.of_group), PACKED_VALUES)
        weights = Matrix(self.weights, heads.row)
        over_keys(self.context, heads, block.rows, weights, values, heads.width, seen, divided)

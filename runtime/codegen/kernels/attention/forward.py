"""The results of attention: a work item is a head and a block of its queries."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.codegen.ir import Index, Value
from runtime.codegen.ir.words import where
from runtime.codegen.kernels.attention.heads import Block, heads_of, over_blocks
from runtime.codegen.kernels.attention.pairs import products_of
from runtime.codegen.kernels.attention.products import Products, store_as
from runtime.codegen.kernels.attention.rows import MemoryLayout, ResultPlace, Scratch, ahead_of, contiguous, own_places
from runtime.codegen.kernels.attention.seen import are_finite, seen_keys
from runtime.codegen.kernels.attention.weights import write_weights
from runtime.codegen.kernels.matmul import Matrix
from runtime.codegen.kernels.moves import Layout
from runtime.codegen.kernels.op_types import OpTypes
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.machine import Target


def forward(
    target: Target, op: OpTypes, layouts: Sequence[Layout] = (), places: Sequence[ResultPlace] = ()
) -> KernelSteps:
    """Return the kernel step of attention; the result of operands of bfloat16 is float32 or bfloat16.

    Args:
        target: the target of the code.
        op: the op; its operands are queries, keys, values and, if there is one, the mask.
        layouts: layouts of queries, keys and values; they are contiguous if none are given.
        places: the position of the result; it is a tensor of its own if none is given.
    """
    *operands, mask = op.inputs
    q, k, v = (x for x in operands if x is not None)
    heads = heads_of(target, q, k, v, mask, op.attributes["causal"], op.attributes["scale"])
    products = products_of(heads)
    memory = MemoryLayout(layouts or contiguous([q, k, v]), places or own_places([(*q.static_shape[:3], heads.width)]))
    of_q, _, of_v = memory.has_gaps
    scratch = Scratch(
        (products.columns_size(heads.depth), heads.rows * heads.row, heads.rows),
        (
            products.right_size(products.steps(heads.keys), heads.width, has_gaps=of_v),
            products.left_size(heads.rows, heads.depth, has_gaps=of_q),
        ),
    )

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        results = _Results(context, products, memory, scratch)
        over_blocks(context, heads, start, stop, results.begin_group, results.write)

    items = heads.images * heads.heads * heads.blocks
    return KernelSteps((KernelStep(write, items, heads.cycles),), thread_scratch=scratch.nbytes(heads.item))


class _Results:
    """The results of a work item.

    Attributes:
        keys: panels of keys.
        weights, line: weights of a block, and a number for each of its queries.
        values, queries: copies of values, and of the queries of a block.
    """

    def __init__(self, context: KernelContext, products: Products, memory: MemoryLayout, scratch: Scratch) -> None:
        self.context, self.products, self.heads, self.f = context, products, products.heads, context.f
        *operands, self.mask = context.inputs
        self.q, self.k, self.v = memory.operands_of(operands)
        [self.y] = memory.results_of(context.outputs)
        own, copies = scratch.addresses(context, self.heads.element)
        self.keys, self.weights, self.line = own
        self.values, self.queries = copies
        self.finite, self.word = self.f.local(), self.f.local()

    def begin_group(self, group: Value) -> None:
        """Begin a group of heads: pack its keys and values."""
        f, heads, values = self.f, self.heads, self.v.of(group)
        self.products.write_columns(f, self.k.of(group), heads.depth, self.keys)
        self.products.write_right(f, values, heads.keys, heads.width, self.values)
        if heads.leaves_out:
            finite = are_finite(f, heads, [(self.products.elements(values), heads.keys, heads.width)])
            f.store(where(finite, f.index(1), 0), self.finite)

    def write(self, head: Value, block: Block) -> None:
        """Write the results of a block."""
        f, heads, products = self.f, self.heads, self.products
        q, to = (x.of(head).moved(block.first, 0) for x in (self.q, self.y))
        left = products.left(f, q, block.rows, heads.depth, self.queries)
        seen: Index = seen_keys(self.context, heads, block, self.mask, self.finite, self.word)
        ahead = ahead_of([self.q, self.k, self.v, self.y], head, heads.of_group)
        write_weights(
            self.context, products, block, left, self.keys, self.mask, seen, self.weights, self.line, ahead,
            rounds=heads.of_pairs,
        )  # fmt: skip

        def divided(x: Value, i: Index, j: Index, count: int) -> None:
            store_as(x * f.load(self.line, i), to.moved(i, j).at, count)

        values = products.right(self.v.of(head // heads.of_group), heads.width, self.values)
        products.over_keys(f, block.rows, Matrix(self.weights, heads.row), values, heads.width, seen, divided)

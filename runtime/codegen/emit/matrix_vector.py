"""Groups that begin with a product of one column: vectors are rows, because a column would use one lane of them.

The rows of the left operand are contiguous: each is multiplied and reduced in lanes, in the tree of reductions, and as
many rows as there are lanes become one vector. Nodes that read operands with gaps take the results one by one. A left
operand whose columns are contiguous is transposed instead, see `partition`. `lowering.order_additions` decides which
products add in this order.

A product of few rows by a matrix of weights that are contiguous along the depth, as layers of PyTorch have them, is
computed likewise, with its operands exchanged: each row of weights is read once, as it lies, for a few columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from runtime.codegen.costs import DOT_PRODUCT_CYCLES
from runtime.codegen.emit.body import body_of
from runtime.codegen.emit.partition import LEFT, RIGHT, product_shape
from runtime.codegen.emit.producer import ProductOperands
from runtime.codegen.emit.row_tiles import has_rows_apart, row_tiles_of_indices
from runtime.codegen.ir import DTYPES, Index, Value
from runtime.codegen.ir.words import lane, shuffle
from runtime.codegen.kernels.matmul import Matrix, Operand
from runtime.codegen.kernels.matmul.shape import ProductShape
from runtime.codegen.kernels.nest import unravelled
from runtime.codegen.kernels.reduction import SUM, by_pairs, in_lanes
from runtime.codegen.lowering.group_kernel import GroupKernel
from runtime.codegen.machine import Target
from runtime.codegen.rules import KernelContext, KernelStep, KernelSteps

COLUMNS_AT_ONCE: Final = 2
"""Columns by which a row is multiplied in one pass, whose sums fit into registers; the row stays in a cache."""


def column_steps(target: Target, kernel: GroupKernel) -> KernelSteps:
    """Return one kernel step: a work item is a vector of rows."""
    shape = product_shape(kernel)
    lanes = target.lanes(DTYPES[kernel.types[kernel.group.nodes[0].outputs[0]].dtype].bits)
    around, (whole, rest) = shape.loops.extents[:-2], divmod(shape.m, lanes)
    parts = whole + bool(rest)

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        f, column = context.f, _Column(context, kernel, shape, lanes)
        for item in f.range(start, stop):
            *at, part = unravelled(f, item, (*around, parts))
            is_whole = f.index(part) < whole
            if whole:
                with f.when(is_whole):
                    column.rows(at, f.index(part) * lanes, lanes)
            if rest:
                with f.when(~is_whole):
                    column.rows(at, whole * lanes, rest)

    node, is_plain = kernel.group.nodes[0], not (rest or around or shape.is_transposed)
    left = [
        x for x in node.inputs[:1] if x not in node.inputs[1:] and has_rows_apart(kernel, x, shape.m, shape.left[0])
    ]
    row_tiles = row_tiles_of_indices(kernel, whole, left) if is_plain else None
    cost = prod(around) * shape.m * shape.n * shape.k * DOT_PRODUCT_CYCLES
    return KernelSteps((KernelStep(write, prod(around) * parts, cost, row_tiles=row_tiles),))


class _Column:
    def __init__(self, context: KernelContext, kernel: GroupKernel, shape: ProductShape, lanes: int) -> None:
        node, *nodes = kernel.group.nodes
        self.f, self.shape, self.lanes, self.result = context.f, shape, lanes, node.outputs[0]
        self.type = DTYPES[kernel.types[self.result].dtype].of(lanes)
        self.body = body_of(context, kernel, nodes, computed=node.outputs)
        self.steps = {name: (*step[:-2], step[-1], step[-2]) for name, step in shape.loops.strides.items()}
        beside = [step[-1] for name, step in self.steps.items() if name not in (LEFT, RIGHT)]
        self.goes_on = all(step in (0, 1) for step in beside)
        self.operands = ProductOperands(context, kernel, shape)

    def rows(self, at: Sequence[Index], row: Index, count: int) -> None:
        """Compute `count` rows from `row` on, at most one vector of them; `at` is the index along the batch axes."""
        left = self.operands.left([*at]).moved(row, 0)
        if isinstance(left, Matrix) and self.shape.k == 1:
            left = replace(left, column=1)  # the stride of a single column may be anything
        right = self.operands.right([*at])
        assert isinstance(right, Matrix), "only the left operand is computed"
        right = replace(right, row=1)  # or it has but one row
        rows = [self._row(left.moved(i, 0), right) for i in range(count)]
        missing = [self.f.constant(self.type, 0)] * (self.lanes - count)
        for column, of_rows in enumerate(zip(*rows, strict=True)):
            x = by_pairs([transposed_sum([*part, *missing]) for part in zip(*of_rows, strict=True)], SUM)
            if self.goes_on:
                self.body.at(self.steps, [*at, column, row], self.lanes, count, {self.result: x})
                continue
            for i in range(count):
                self.body.at(self.steps, [*at, column, row + i], 0, 1, {self.result: lane(x, i)})

    def _row(self, left: Operand, right: Matrix) -> list[list[Value]]:
        """Return the products of a row by each column, reduced to the parts of one nominal vector."""
        found: list[list[Value]] = []
        for first in range(0, self.shape.n, COLUMNS_AT_ONCE):
            columns = range(first, min(first + COLUMNS_AT_ONCE, self.shape.n))

            def products(k: Index, tail: int | None, columns: range = columns) -> list[Value]:
                x = left.along_row(0, k, self.lanes, tail)
                return [x * right.along_column(k, column, self.lanes, tail) for column in columns]

            count = len(columns)
            sums = in_lanes(self.f, self.shape.k, products, [SUM] * count, [self.type] * count)
            found += [sums[i::count] for i in range(count)]
        return found


def transposed_sum(vectors: Sequence[Value]) -> Value:
    """Return the sum of the lanes of each vector, in the lane of its number; there are as many vectors as lanes."""
    lanes, size = len(vectors), 1  # `size` vectors are merged into one; the sum of each is spread over `size` lanes
    while size < lanes:
        pairs = range(0, lanes, 2 * size)
        even, odd = (
            [side + start + at + i for at in pairs for side in (0, lanes) for i in range(size)] for start in (0, size)
        )
        beside = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [shuffle(a, b, even) + shuffle(a, b, odd) for a, b in beside]
        size *= 2
    return vectors[0]

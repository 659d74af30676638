"""Groups that begin with a product: the tile's vectors go through the pointwise nodes while they are in registers.

If the depth is split into halves, their sums are stored in shared scratch, and a second kernel step adds them in order
and computes the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from runtime.codegen.costs import REMOTE_PARTIAL_SUM_CYCLES
from runtime.codegen.emit.body import body_of
from runtime.codegen.emit.large_products import is_large, large_steps
from runtime.codegen.emit.partition import Partition, cost_of, partitioned, plan_of, product_shape
from runtime.codegen.emit.producer import ProductOperands
from runtime.codegen.emit.row_tiles import has_rows_apart, row_tiles, row_tiles_of_product
from runtime.codegen.groups.group_kernel import GroupKernel
from runtime.codegen.groups.nodes import Additions
from runtime.codegen.ir import DTYPES, Index, Value
from runtime.codegen.kernels.matmul import Matrix, product, stored
from runtime.codegen.kernels.matmul.shape import ProductShape
from runtime.codegen.kernels.nest import Pieces, along, offset_of, piece, pieces_of, row_major, unravelled
from runtime.codegen.machine import Target
from runtime.codegen.rules import CustomKernel, KernelContext, KernelStep, KernelSteps, RowTiles

REDUCED_COLUMNS_PER_ITEM: Final = 128
"""Columns of a work item that adds partial sums; they are contiguous in memory."""

REDUCED_ROWS_PER_ITEM: Final = 16
"""Rows of a work item that adds partial sums."""


def product_steps(target: Target, kernel: GroupKernel) -> KernelSteps:
    """Return the kernel steps of a product; a second one adds the halves of the depth.

    A work item is a part of a matrix, or a whole matrix where there are many.
    """
    shape, dtype = product_shape(kernel), _dtype(kernel)
    if is_large(kernel, shape):
        return large_steps(target, kernel, shape)
    bits, around = DTYPES[dtype].bits, shape.loops.extents[:-2]
    partition = partitioned(target, bits, shape, prod(around), halved=kernel.additions is Additions.HALVES)
    plans = [plan_of(target, bits, shape, m, n, partition.depth.size) for m, n in partition.sizes]
    sums = partition.depth.pieces if partition.depth.pieces > 1 else int(plans[0].depths > 1)
    memory_budget = max(plan.scratch for plan in plans) * bits // 8
    scratch = (max(shape.m * shape.n * prod(around) * sums * bits // 8, 64),), (max(memory_budget, 64),)

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        emission = _Emission(target, context, kernel, shape, partition)
        for item in context.f.range(start, stop):
            emission.part(unravelled(context.f, item, (*around, *partition.counts)))

    cost = prod(around) * cost_of(target, bits, shape)
    parts = KernelStep(write, prod(around) * partition.parts, cost, row_tiles=_row_tiles(kernel, shape, partition))
    if partition.depth.pieces == 1:
        return KernelSteps((parts,), *scratch)
    joins = pieces_of(shape.n, REDUCED_COLUMNS_PER_ITEM), pieces_of(shape.m, REDUCED_ROWS_PER_ITEM)

    def join(context: KernelContext, start: Value, stop: Value) -> None:
        emission = _Emission(target, context, kernel, shape, partition)
        for item in context.f.range(start, stop):
            *at, column, row = unravelled(context.f, item, (*around, joins[0].pieces, joins[1].pieces))
            emission.reduced(at, (column, row), *joins)

    cost = prod(around) * shape.m * shape.n * (partition.depth.pieces + 1) * REMOTE_PARTIAL_SUM_CYCLES
    steps = parts, KernelStep(join, prod(around) * joins[0].pieces * joins[1].pieces, cost)
    return KernelSteps(steps, *scratch, reads_row_halves=not shape.is_of_weights)


def _row_tiles(kernel: GroupKernel, shape: ProductShape, partition: Partition) -> RowTiles | None:
    """Return the parts as row tiles of the batch: of the result, or along the depth of a gradient of weights."""
    inputs = kernel.group.nodes[0].inputs
    left, right = inputs[::-1] if shape.is_transposed else inputs
    if shape.computed[1] or any(isinstance(node.rule, CustomKernel) for node in kernel.group.prologue):
        return None  # every part reads all rows of what these are computed from
    if len(shape.loops.extents) > 2:
        return None
    if partition.depth.pieces > 1:
        whole = has_rows_apart(kernel, left, shape.k, shape.left[1]) and has_rows_apart(
            kernel, right, shape.k, shape.right[0]
        )
        return (
            row_tiles(kernel, partition.depth.pieces, shape.k, (left, right)) if whole and shape.is_of_weights else None
        )
    if partition.columns.pieces > 1 or partition.rows.size != partition.rows.last or kernel.group.domain[0] != shape.m:
        return None
    return row_tiles_of_product(kernel, shape, (left, right), partition.rows.pieces)


class _Emission:
    def __init__(
        self, target: Target, context: KernelContext, kernel: GroupKernel, shape: ProductShape, partition: Partition
    ) -> None:
        self.f, self.context, self.shape, self.cut = context.f, context, shape, partition
        self.target, self.element = target, DTYPES[_dtype(kernel)]
        node = kernel.group.nodes[0]
        self.result = node.outputs[0]
        self.body = body_of(context, kernel, kernel.group.nodes[1:], computed=node.outputs)
        self.operands = ProductOperands(context, kernel, shape)

    def part(self, index: list[Index]) -> None:
        """Compute a part at a position of the axes around a matrix, and along its depth, rows and columns."""
        *at, depth, rows, columns = index
        for row, m in piece(self.f, rows, self.cut.rows):
            for column, n in piece(self.f, columns, self.cut.columns):
                self._product(at, depth, (row, column), (m, n))

    def _product(self, at: list[Index], part: Index, start: tuple[Index, Index], size: tuple[int, int]) -> None:
        shape, (row, column) = self.shape, start
        depth = self.cut.depth.size
        plan = plan_of(self.target, self.element.bits, shape, *size, depth)
        in_parts = self.cut.depth.pieces > 1
        waiting = Matrix(self._waiting(at, part), shape.n).moved(row, column)

        def finished(x: Value, i: Index, j: Index, count: int) -> None:
            self._finished(x, [*at, row + i, column + j], plan.lanes, count)

        product(
            self.f,
            plan,
            self.element,
            *size,
            depth,
            self.operands.left(at).moved(row, part * depth),
            self.operands.right(at).moved(part * depth, column),
            stored(waiting) if in_parts else finished,
            partial=waiting if plan.depths > 1 else None,
            scratch=self.context.thread_scratch(0, self.element) if plan.scratch else None,
            beside=[] if in_parts else [matrix.moved(row, column) for matrix in self._beside(at)],
        )

    def _beside(self, at: list[Index]) -> Iterator[Matrix]:
        """Yield the operands of the nodes that have the shape of the result, such as weights that they update."""
        steps = self.shape.loops.strides
        for name in dict.fromkeys(name for node in self.body.nodes for name in node.inputs if name in steps):
            of_rows, of_columns = steps[name][-2:]
            if of_columns == 1 and of_rows and self.context.addresses[name].type.element == self.element:
                yield Matrix(self.context.addresses[name] + offset_of(at, steps[name]), of_rows)

    def _waiting(self, at: list[Index], part: Index) -> Value:
        """Return where the sums of a part of the depth wait: all matrices of the first part, then of the others."""
        around = self.shape.loops.extents[:-2]
        matrix = part * prod(around) + offset_of(at, row_major(around, around))
        return self.context.shared_scratch(0, self.element) + matrix * (self.shape.m * self.shape.n)

    def reduced(self, at: list[Index], item: tuple[Index, Index], columns: Pieces, rows: Pieces) -> None:
        """Add the stored halves of the depth for some columns and rows of a matrix."""
        for column, n in piece(self.f, item[0], columns):
            for row, m in piece(self.f, item[1], rows):
                for i in self.f.range(0, m):
                    self._reduced_row(at, row + i, column, n)

    def _reduced_row(self, at: list[Index], row: Index, column: Index, columns: int) -> None:
        waiting = [self._waiting(at, part) + (row * self.shape.n + column) for part in range(self.cut.depth.pieces)]

        def vector(j: Index, lanes: int, count: int) -> None:
            tail = count if lanes else None
            x, *others = (self.f.load(start, j, lanes, tail) for start in waiting)
            for other in others:
                x = x + other
            self._finished(x, [*at, row, column + j], lanes, count)

        along(self.f, columns, self.target.lanes(self.element.bits), vector)

    def _finished(self, x: Value, at: list[Index], lanes: int, count: int) -> None:
        self.body.at(self.shape.loops.strides, at, lanes, count, {self.result: x})


def _dtype(kernel: GroupKernel) -> str:
    return kernel.types[kernel.group.nodes[0].outputs[0]].dtype

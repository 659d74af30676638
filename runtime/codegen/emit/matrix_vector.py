"""Groups that begin with a product of one column: vectors are rows, because a column would use one lane of them.

The rows of the left operand are contiguous: each is multiplied and reduced in lanes, in the tree of reductions, and as
many rows as there are lanes become one vector. Nodes that read operands with gaps take the results one by one. A left
operand whose columns are contiguous is transposed instead, see `partition`. `lowering.order_additions` decides which
products add in this order.

A product of few rows by a matrix of weights that are contiguous along the depth, as layers of PyTorch have them, is
computed likewise, with its operands exchanged: each row of weights is read once, as it lies, for a few columns. Several
rows of weights are read side by side: the hardware prefetches each of them, and a column is loaded once for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final, NamedTuple

from runtime.codegen.costs import DOT_PRODUCT_CYCLES
from runtime.codegen.emit.body import body_of
from runtime.codegen.emit.partition import LEFT, RIGHT, product_shape
from runtime.codegen.emit.producer import ProductOperands, Stream
from runtime.codegen.emit.row_tiles import row_tiles_of_product
from runtime.codegen.groups.group_kernel import GroupKernel
from runtime.codegen.ir import DTYPES, Index, Value
from runtime.codegen.ir.words import lane, shuffle
from runtime.codegen.kernels.matmul import ComputedMatrix, Matrix, Operand
from runtime.codegen.kernels.matmul.shape import ProductShape
from runtime.codegen.kernels.nest import unravelled
from runtime.codegen.kernels.reduction import PARALLEL_CHAINS, SUM, Product, by_pairs, in_lanes
from runtime.codegen.kernels.split import power_of_two_up_to
from runtime.codegen.machine import CACHE_LINE_BYTES, Target
from runtime.codegen.rules import KernelContext, KernelStep, KernelSteps

COLUMNS_PER_PASS: Final = 2
"""Upper bound on the columns by which rows are multiplied in one pass; three long ones share a pass too."""

COMPUTED_COLUMNS_PER_PASS: Final = 4
"""The same for rows that are computed where they are read, so that each element is computed once."""

ROWS_PER_PASS: Final = 4
"""Upper bound on the rows that are read side by side; a power of two, so that it divides a vector."""

MIN_LONG_BYTES: Final = 1 << 14
"""Bytes of all columns from which on they leave the nearest cache while rows go by, so that a pass has several rows.

With shorter columns one row after the other is faster, as the hardware prefetches a single stream best.
"""


class _Tile(NamedTuple):
    """The rows and columns of a product whose sums stay in registers during one pass over the depth.

    Attributes:
        rows: rows of the left operand.
        columns: columns of the right operand.
        vectors: vectors of each round of the tree of reductions.
        prefetches: True if the rows after those of a pass are prefetched.
    """

    rows: int
    columns: int
    vectors: int
    prefetches: bool


def _tile(target: Target, columns: int, all_columns: int, column_bytes: int) -> _Tile:
    """Return the tile for passes of `columns` columns: all chains of several rows, or some of the chains of one."""
    is_long = all_columns * column_bytes >= MIN_LONG_BYTES
    columns = 3 if is_long and all_columns == 3 else columns
    sums, chains = target.registers * 3 // 4, PARALLEL_CHAINS * target.vectors_per_nominal
    rows = power_of_two_up_to(min(sums // (columns * chains), ROWS_PER_PASS if is_long else 1))
    return _Tile(rows, columns, min(power_of_two_up_to(sums // (rows * columns)), chains), is_long)


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

    left, right = kernel.group.nodes[0].inputs
    is_plain = not (rest or around or shape.is_transposed)
    row_tiles = row_tiles_of_product(kernel, shape, (left, right), whole) if is_plain else None
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
        columns = COMPUTED_COLUMNS_PER_PASS if shape.computed[0] else COLUMNS_PER_PASS
        self.tile = _tile(context.f.target, min(shape.n, columns), shape.n, shape.k * self.type.bits // 8)

    def rows(self, at: Sequence[Index], row: Index, count: int) -> None:
        """Compute `count` rows from `row` on, at most one vector of them; `at` is the index along the batch axes."""
        left = self.operands.left([*at]).moved(row, 0)
        if isinstance(left, Matrix) and self.shape.k == 1:
            left = replace(left, column=1)  # the stride of a single column may be anything
        if isinstance(left, ComputedMatrix):
            left = left.prepared(count)
        right = self.operands.right([*at])
        assert isinstance(right, Matrix), "only the left operand is computed"
        right = replace(right, row=1)  # or it has but one row
        step = self.tile.rows
        rows = [x for i in range(0, count, step) for x in self._rows(left.moved(i, 0), right, min(step, count - i))]
        missing = [self.f.constant(self.type, 0)] * (self.lanes - count)
        for column, of_rows in enumerate(zip(*rows, strict=True)):
            x = by_pairs([transposed_sum([*part, *missing]) for part in zip(*of_rows, strict=True)], SUM)
            if self.goes_on:
                self.body.at(self.steps, [*at, column, row], self.lanes, count, {self.result: x})
                continue
            for i in range(count):
                self.body.at(self.steps, [*at, column, row + i], 0, 1, {self.result: lane(x, i)})

    def _rows(self, left: Operand, right: Matrix, rows: int) -> list[list[list[Value]]]:
        """Return the products of rows by each column, reduced to the parts of one nominal vector."""
        found: list[list[list[Value]]] = [[] for _ in range(rows)]
        streams = self.operands.streams(left) if self.tile.prefetches else []
        for first in range(0, self.shape.n, self.tile.columns):
            columns = range(first, min(first + self.tile.columns, self.shape.n))
            prefetch = _Prefetch(streams if first == 0 else [], rows, self.lanes)

            def products(
                k: Index, tail: int | None, columns: range = columns, prefetch: _Prefetch = prefetch
            ) -> list[Product]:
                prefetch.vector(k)
                beside = [right.along_column(k, column, self.lanes, tail) for column in columns]
                along = [left.along_row(i, k, self.lanes, tail) for i in range(rows)]
                return [Product(x, y) for x in along for y in beside]

            count = rows * len(columns)
            sums = in_lanes(self.f, self.shape.k, products, [SUM] * count, [self.type] * count, self.tile.vectors)
            for i, of_row in enumerate(found):
                of_row += [sums[number::count] for number in range(i * len(columns), (i + 1) * len(columns))]
        return found


class _Prefetch:
    """Prefetches of the rows after those of a pass into the second-level cache, a line at a time."""

    def __init__(self, streams: Sequence[Stream], rows: int, lanes: int) -> None:
        self._streams, self._rows, self._lanes, self._count = streams, rows, lanes, 0

    def vector(self, k: Index) -> None:
        """Prefetch the lines beside a vector of each row; it is called for successive vectors."""
        for stream in self._streams:
            if stream.bytes_of(self._count * self._lanes) % CACHE_LINE_BYTES == 0:
                for i in range(self._rows):
                    stream.prefetch(i + self._rows, k)
        self._count += 1


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

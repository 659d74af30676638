"""Large products: all threads copy the right operand into panels once; then work items compute blocks of the result.

If parts copied operands for themselves, several would copy the same, and a part of few columns would read all of the
left operand again, which may be larger than a cache. Here a work item reads its rows of the left operand once, and
panels that all work items share.

In a gradient of weights with few rows, work items are columns of all rows. No other work item needs their part of the
right operand then, so a work item copies it for itself, one block of the depth at a time, which stays in the caches.
The left operand, along whose rows the result is contiguous, is read in place. The epilogue is a kernel step of its own,
over whole rows: the hardware prefetcher follows long rows, and an update reads and writes three states.
"""

from __future__ import annotations

from math import gcd
from typing import Final

from runtime.codegen.costs import PACKED_ELEMENT_CYCLES, UPDATED_ELEMENT_CYCLES
from runtime.codegen.emit.body import body_of
from runtime.codegen.emit.partition import cost_of, plan_of
from runtime.codegen.emit.producer import ProductOperands
from runtime.codegen.groups.group_kernel import GroupKernel
from runtime.codegen.groups.nodes import Additions
from runtime.codegen.ir import DTYPES, Index, Value
from runtime.codegen.kernels.matmul import (
    MatmulPlan,
    Matrix,
    Operand,
    PrefetchedOperand,
    packed_right,
    plan_rows,
    product,
)
from runtime.codegen.kernels.matmul.shape import (
    MIN_ITEM_COLUMNS,
    ProductShape,
    is_of_all_rows,
    shares_panels,
)
from runtime.codegen.kernels.nest import Pieces, along, piece, pieces_of
from runtime.codegen.kernels.pair_products import GROUP_PAIRS
from runtime.codegen.machine import Target
from runtime.codegen.rules import KernelContext, KernelStep, KernelSteps, Prepack

ROWS_PER_ITEM: Final = 128
"""Rows of a work item: the part of the left operand that it reads again for each panel stays in the caches."""

MIN_ROWS_PER_ITEM: Final = 48
"""Least rows of a work item if many threads share them: fewer read each panel for too few multiply-adds."""

MIN_ITEMS: Final = 8
"""Least number of work items: with fewer blocks of rows, columns are split too."""

MIN_SHARED_COLUMNS: Final = 32
"""Least columns of a work item of all rows, if many threads share them."""


MAX_LIGHT_EPILOGUE_NODES: Final = 2
"""Nodes after a product that need no more than registers."""


ROWS_COPIED_TOGETHER: Final = 16
"""Rows of the right operand that are copied at once, where they are contiguous: memory is read in its order."""


DEFERRED_ROWS_PER_ITEM: Final = 16
"""Rows of a work item of the epilogue's kernel step."""


def is_large(kernel: GroupKernel, shape: ProductShape) -> bool:
    """Return True if it pays to copy the right operand of a product first; halves of a depth copy none."""
    is_prepacked = kernel.group.nodes[0].inputs[_right_of(shape)] in kernel.invariant
    return kernel.additions is Additions.CHAIN and shares_panels(shape, is_prepacked=is_prepacked)


def _right_of(shape: ProductShape) -> int:
    """Return the number of the right operand."""
    return 0 if shape.is_transposed else 1


def large_steps(target: Target, kernel: GroupKernel, shape: ProductShape) -> KernelSteps:
    """Return two kernel steps: a copy and the products; or the products and the epilogue, if that is long."""
    element = DTYPES[kernel.types[kernel.group.nodes[0].outputs[0]].dtype]
    item = element.bits // 8
    blocks = partition_of_large(target, element.bits, shape)
    plan, copies, rows = blocks.plan, _copies(shape, blocks.plan), pieces_of(shape.m, DEFERRED_ROWS_PER_ITEM)

    def copy(context: KernelContext, start: Value, stop: Value) -> None:
        emission = _Emission(context, kernel, shape, blocks)
        for work_item in context.f.range(start, stop):
            emission.copy(context.f.index(work_item), copies)

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        emission = _Emission(context, kernel, shape, blocks)
        for work_item in context.f.range(start, stop):
            emission.item(context.f.index(work_item))

    def finish(context: KernelContext, start: Value, stop: Value) -> None:
        emission = _Emission(context, kernel, shape, blocks)
        for work_item in context.f.range(start, stop):
            emission.finish(context.f.index(work_item), rows)

    memory_budget, waits = max(plan.scratch * item, 64), _sums_wait(kernel, shape, plan)
    waiting = max(blocks.rows.size * blocks.apart * item if waits else 0, 64)
    multiply = KernelStep(write, blocks.rows.pieces * blocks.columns.pieces, cost_of(target, element.bits, shape))
    if not blocks.width:
        follow = KernelStep(finish, rows.pieces, shape.m * shape.n * UPDATED_ELEMENT_CYCLES)
        return KernelSteps((multiply, follow) if waits else (multiply,), (waiting,), (memory_budget,))
    copied = plan.depths * plan.depth * blocks.width * plan.elements
    first = KernelStep(copy, copies.pieces, copied * PACKED_ELEMENT_CYCLES, prepack=Prepack((_right_of(shape),), (0,)))
    return KernelSteps((first, multiply), (copied * item,), (memory_budget, waiting))


def _copies(shape: ProductShape, plan: MatmulPlan) -> Pieces:
    """Return the work items of the copy: panels, or ranges of the depth."""
    if _copies_panels(shape, plan):
        return pieces_of(shape.n, plan.width)
    return pieces_of(shape.k, gcd(plan.depth, ROWS_COPIED_TOGETHER) if plan.depths > 1 else ROWS_COPIED_TOGETHER)


def _copies_panels(shape: ProductShape, plan: MatmulPlan) -> bool:
    """Return True if a work item copies a panel of the whole depth, False if it copies whole rows of the right operand.

    Rows are read in the order of memory if they are contiguous. Ranges of rows must not split groups of combined words.
    """
    is_split = plan.is_chained and plan.depths > 1 and plan.depth % GROUP_PAIRS != 0
    return shape.right[1] != 1 or is_split


def partition_of_large(target: Target, bits: int, shape: ProductShape) -> _Columns | _Blocks:
    """Return how the result of a large product is partitioned."""
    return _Columns(target, bits, shape) if is_of_all_rows(shape) else _Blocks(target, bits, shape)


class _Columns:
    """A result in parts of columns of all rows; see `_Blocks`."""

    width = 0

    def __init__(self, target: Target, bits: int, shape: ProductShape) -> None:
        lanes, wanted = target.lanes(bits), target.wanted_items(MIN_ITEMS)
        parts = min(shape.n // (MIN_SHARED_COLUMNS if target.has_many_threads else MIN_ITEM_COLUMNS), wanted)
        self.rows = pieces_of(shape.m, shape.m)
        self.columns = pieces_of(shape.n, -(-shape.n // (parts * lanes)) * lanes)
        self.plan: MatmulPlan = plan_of(target, bits, shape, shape.m, self.columns.size, shape.k)
        self.apart = shape.n + lanes


class _Blocks:
    """The parts of the result, and the plan of every block.

    Attributes:
        rows, columns: pieces of the result.
        plan: plan of a block.
        width: columns of all panels together; 0 if every work item packs its own.
        apart: stride of the rows of stored sums, in elements, which is no power of two.
    """

    def __init__(self, target: Target, bits: int, shape: ProductShape) -> None:
        self.rows = pieces_of(shape.m, -(-shape.m // _blocks_of_rows(target, shape.m)))
        first = self._plan(target, bits, shape, shape.n)
        self.width = -(-shape.n // first.width) * first.width
        across = min(-(-target.wanted_items(MIN_ITEMS) // self.rows.pieces), self.width // first.width)
        self.columns = pieces_of(shape.n, -(-shape.n // (across * first.width)) * first.width)
        self.plan: MatmulPlan = self._plan(target, bits, shape, self.columns.size)._replace(
            rows=first.rows, vectors=first.vectors, block_columns=min(first.block_columns, self.columns.size)
        )

        self.apart = self.columns.size + self.plan.lanes

    def _plan(self, target: Target, bits: int, shape: ProductShape, columns: int) -> MatmulPlan:
        rows, packed, of_pairs = self.rows.size, shape.packed[0], shape.of_pairs
        return plan_rows(target, bits, rows, columns, shape.k, shape.left, shape.right, packed, of_pairs=of_pairs)


def _blocks_of_rows(target: Target, rows: int) -> int:
    """Return the number of blocks of rows: more of them for many threads, as long as they have enough rows."""
    blocks = -(-rows // ROWS_PER_ITEM)
    return max(blocks, min(target.wanted_items(MIN_ITEMS), rows // MIN_ROWS_PER_ITEM)) if blocks > 1 else blocks


def _sums_wait(kernel: GroupKernel, shape: ProductShape, plan: MatmulPlan) -> bool:
    """Return True if the epilogue runs row by row after a block, rather than tile by tile.

    It then reads and writes long rows of memory, each once. A bias does not need that.
    """
    others = kernel.group.nodes[1:]
    internal = {name for node in kernel.group.nodes for name in node.outputs}
    read = {name for node in others for name in node.inputs if name and name not in internal}
    is_light = len(others) <= MAX_LIGHT_EPILOGUE_NODES and not any(
        shape.loops.strides.get(name, (0, 0))[-2] for name in read
    )
    return plan.depths > 1 or not is_light


class _Emission:
    def __init__(
        self, context: KernelContext, kernel: GroupKernel, shape: ProductShape, blocks: _Blocks | _Columns
    ) -> None:
        self.context, self.shape, self.blocks = context, shape, blocks
        node, nodes = kernel.group.nodes[0], kernel.group.nodes[1:]
        self.result, self.element = node.outputs[0], DTYPES[kernel.types[node.outputs[0]].dtype]
        self.body = body_of(context, kernel, nodes, computed=node.outputs)
        self.operands = ProductOperands(context, kernel, shape)
        self.wait = _sums_wait(kernel, shape, blocks.plan)

    def copy(self, number: Value, copies: Pieces) -> None:
        """Copy a part of the right operand into panels."""
        write = self._panel if _copies_panels(self.shape, self.blocks.plan) else self._stretch
        for start, size in piece(self.context.f, number, copies):
            write(start, size)

    def _panel(self, column: Index, columns: int) -> None:
        """Copy some columns of the right operand, one block of the depth after the other."""
        f, plan, depths = self.context.f, self.blocks.plan, pieces_of(self.shape.k, self.blocks.plan.depth)
        right = self.operands.right([])
        for part in f.range(0, depths.pieces):
            for p, depth in piece(f, part, depths):
                to, vector = self._lies(p, column), self.element.of(plan.lanes)
                width, most, rest = plan.width, plan.depth, plan.chains_rest
                packed_right(f, right.moved(p, column), to, depth, columns, width, most, vector, chains_rest=rest)

    def _stretch(self, p: Index, depth: int) -> None:
        """Copy some whole rows of the right operand, all of one block of the depth."""
        f, plan, shape = self.context.f, self.blocks.plan, self.shape
        right = self.operands.right([]).moved(p, 0)
        inside = f.index(p) % plan.depth
        to = self._lies(f.index(p) - inside, 0) + inside * plan.panel_row
        width, most, rest, vector = plan.width, plan.depth, plan.chains_rest, self.element.of(plan.lanes)
        packed_right(f, right, to, depth, shape.n, width, most, vector, chains_rest=rest)

    def _lies(self, p: Index, column: Index) -> Value:
        """Return the address of the copy of a block of the right operand."""
        plan = self.blocks.plan
        begin = (p * self.blocks.width + column * plan.depth) * plan.elements
        return self.context.shared_scratch(0, self.element) + begin

    def item(self, number: Value) -> None:
        """Compute one block of the result."""
        rows, columns = self.blocks.rows, self.blocks.columns
        for row, m in piece(self.context.f, number // columns.pieces, rows):
            for column, n in piece(self.context.f, number % columns.pieces, columns):
                self.block(row, column, m, n)

    def block(self, row: Index, column: Index, m: int, n: int) -> None:
        """Compute some rows and columns of the result."""
        shape, plan, context = self.shape, self.blocks.plan, self.context

        waiting = self._waiting(row, column) if self.wait else None

        def finished(x: Value, i: Index, j: Index, count: int) -> None:
            self.body.at(shape.loops.strides, [row + i, column + j], plan.lanes, count, {self.result: x})

        left = self.operands.left([]).moved(row, 0)
        right = self.operands.right([]).moved(0, column)
        product(
            context.f,
            plan,
            self.element,
            m,
            n,
            shape.k,
            left,
            right,
            finished if waiting is None else None,
            partial=waiting,
            scratch=context.thread_scratch(0, self.element) if plan.scratch else None,
            panels=(lambda p, j: self._lies(p, column + j)) if self.blocks.width else None,
            ahead=[] if self.blocks.width else self._ahead(left, right, m, n),
        )
        if waiting is not None and self.blocks.width:
            for i in context.f.range(0, m):
                self._row(waiting.moved(i, 0), row + i, column, n)

    def finish(self, number: Value, rows: Pieces) -> None:
        """Run the epilogue of some rows, when all of their columns are done."""
        for row, m in piece(self.context.f, number, rows):
            for i in self.context.f.range(0, m):
                self._row(self._waiting(row + i, 0), row + i, 0, self.shape.n)

    def _waiting(self, row: Index, column: Index) -> Matrix:
        """Return the memory for the sums of a block: shared by all blocks, or scratch of the thread."""
        if self.blocks.width:
            return Matrix(self.context.thread_scratch(1, self.element), self.blocks.apart)
        return Matrix(self.context.shared_scratch(0, self.element), self.blocks.apart).moved(row, column)

    def _ahead(self, left: Operand, right: Operand, m: int, n: int) -> list[PrefetchedOperand]:
        """Return the operands in memory; the next work item has the same rows, and the columns behind these."""
        found: list[PrefetchedOperand] = []
        if isinstance(left, Matrix):
            rows = Matrix(left.at, left.column)
            found.append(PrefetchedOperand(rows, m, rows))
        if isinstance(right, Matrix):
            found.append(PrefetchedOperand(right, n, right.moved(0, n)))
        return found

    def _row(self, waiting: Matrix, row: Index, column: Index, columns: int) -> None:
        """Run the epilogue of a row of sums."""

        def vector(j: Index, lanes: int, count: int) -> None:
            x = self.context.f.load(waiting.at, j, lanes, count if lanes else None)
            self.body.at(self.shape.loops.strides, [row, column + j], lanes, count, {self.result: x})

        along(self.context.f, columns, self.blocks.plan.lanes, vector)

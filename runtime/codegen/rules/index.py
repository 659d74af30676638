"""Rows selected by index tensors: read, added to and counted.

One thread adds all updates of a row, in the order of the indices: work items are ranges of rows, and each goes through
all indices. Therefore no bit depends on threads, and sums equal those of the reference kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final, NamedTuple

from prograd_proto import TensorType
from prograd_proto.dtypes import HALVES, ITEM_BYTES
from runtime.codegen.costs import COPIED_BYTE_CYCLES, INDEXED_ROW_CYCLES, PARTIAL_SUM_CYCLES, TABLE_ELEMENT_CYCLES
from runtime.codegen.ir import DTYPES, INT64, Index, Type, Value
from runtime.codegen.ir.words import convert, minimum, with_lane
from runtime.codegen.kernels.moves import line
from runtime.codegen.kernels.nest import leading, over, spread
from runtime.codegen.kernels.op_types import OpTypes
from runtime.codegen.kernels.registers import in_register
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps, Read
from runtime.codegen.machine import Target
from runtime.codegen.rules.lookup import Lookup
from runtime.codegen.rules.rule import NUMERIC_DTYPES, RULES, CustomKernel, RowReader

WANTED_ITEMS: Final = 32
"""Number of work items that gives every thread a share."""

MAX_INDEX_RANGES: Final = 8
"""Upper bound on the ranges into which the rows are split; each work item reads all indices for its range."""

MIN_RANGE_BYTES: Final = 256
"""Bytes of a row that is added, for each range: with several ranges, most indices are of another one."""

MIN_SPLIT_ELEMENTS: Final = 1 << 15
"""Elements of all updates below which the rows are not split into ranges."""

BYTES: Final = 256
"""Number of values that a byte has."""

MIN_TABLE_ELEMENTS: Final = 1 << 12
"""Least number of elements that a work item takes from a table."""

TABLE_BYTES: Final = 16
"""Bytes of the vectors that elements of a table are put together in."""

Combine = Callable[[Value, Value], Value]


class RowBlocks(NamedTuple):
    """A tensor as blocks of rows: the number of blocks, the rows of a block, and the elements of a row."""

    before: int
    size: int
    after: int


def row_blocks(type: TensorType, axis: int) -> RowBlocks:
    """Return the tensor as rows along an axis."""
    shape, axis = type.static_shape, axis % type.rank
    return RowBlocks(prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))


def read_rows(target: Target, element: Type, count: int, rows: RowBlocks, lookup: Lookup) -> KernelSteps:
    """Copy, in each block, `count` rows of the first operand; the second one selects them."""
    lanes = target.vector_bytes * 8 // element.bits
    outer = leading((rows.before, count), WANTED_ITEMS)

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        f, numbers = context.f, context.operand(1)
        x, y = context.operand(0), f.cast(context.outputs[0], element)
        x = f.cast(x, element)

        def row(at: list[Index]) -> None:
            block, i = at
            source = x + (block * rows.size + lookup.row_number(context, numbers, i)) * rows.after
            goal = y + (block * count + f.index(i)) * rows.after
            for j, many in line(f, rows.after, lanes):
                f.store(f.load(source, j, many), goal, j)

        extents = (rows.before, count)
        spread(f, extents[:outer], start, stop, lambda at: over(f, extents[outer:], row, at))

    items = prod((rows.before, count)[:outer])
    cost = rows.before * count * (INDEXED_ROW_CYCLES + rows.after * element.bits / 8 * COPIED_BYTE_CYCLES)
    return KernelSteps((KernelStep(write, items, cost),), has_runtime_check=True)


def read_table(element_type: Type, count: int) -> KernelSteps:
    """Copy the elements of a table that bytes select; it has one for each of them, so nothing is checked."""
    items = min(WANTED_ITEMS, -(-count // MIN_TABLE_ELEMENTS))

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        f, table, bytes_ = context.f, context.operand(0), context.operand(1)
        table, y = f.cast(table, element_type), f.cast(context.outputs[0], element_type)

        def element(i: Index) -> Value:
            return f.load(table, convert(f.load(bytes_, i), INT64))

        lanes = TABLE_BYTES * 8 // element_type.bits
        first, last = (f.index(item) * count // items for item in (start, stop))
        whole = first + (last - first) // lanes * lanes
        for i in f.range(first, whole, lanes):
            x = f.constant(element_type.of(lanes), 0)
            for lane in range(lanes):
                x = with_lane(x, lane, element(f.index(i) + lane))
            f.store(x, y, i)
        for i in f.range(whole, last):
            f.store(element(i), y, i)

    cost = count * (TABLE_ELEMENT_CYCLES + element_type.bits / 8 * COPIED_BYTE_CYCLES)
    return KernelSteps((KernelStep(write, items, cost),))


def index_ranges(count: int, width: int, element: Type, size: int) -> tuple[int, int]:
    """Return the number of ranges of the rows of a result that threads share, and the rows of a range.

    Each range looks at all of the `count` indices, which takes longer than to add a short row of `width` elements.
    """
    most = min(width * element.bits // 8 // MIN_RANGE_BYTES, MAX_INDEX_RANGES)
    ranges = min(max(most, 1) if count * width >= MIN_SPLIT_ELEMENTS else 1, size)
    length = -(-size // ranges)
    return -(-size // length), length


def reduce_rows(
    target: Target,
    element: Type,
    count: int,
    rows: RowBlocks,
    lookup: Lookup,
    join: Combine,
    number: float | None = None,
) -> KernelSteps:
    """Combine, in each block, each row of the first operand with the updates whose indices select it.

    With `number`, the indices are the only operand: the result starts at 0, and each index combines the number with it.
    """
    ranges, size = index_ranges(count, rows.after, element, rows.size)
    lanes = target.vector_bytes * 8 // element.bits

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        f, reduced = context.f, _ReducedRows(context, element, rows, number)
        indices = context.operand(0 if number is not None else 1)

        def part(at: list[Index]) -> None:
            block, piece = at
            first = f.index(piece) * size
            last = minimum(first + size, rows.size)
            reduced.begin(block, first, last, lanes)
            for i in f.range(0, count):
                index = lookup.row_number(context, indices, i)
                with f.when((index >= first) & (index < last)):
                    reduced.join(block, index, block * count + f.index(i), lanes, join)

        spread(f, (rows.before, ranges), start, stop, part)

    added = (count + rows.size) * rows.after * PARTIAL_SUM_CYCLES
    cost = rows.before * (count * ranges * INDEXED_ROW_CYCLES + added)
    return KernelSteps((KernelStep(write, rows.before * ranges, cost),), has_runtime_check=True)


class _ReducedRows:
    """The rows of a result while updates are combined with them."""

    def __init__(self, context: KernelContext, element: Type, rows: RowBlocks, number: float | None) -> None:
        self.f, self.rows, self.element, self.number = context.f, rows, element, number
        self.x, self.updates = (None, None) if number is not None else (context.inputs[0], context.inputs[2])
        self.y = context.outputs[0]

    def begin(self, block: Index, first: Value, last: Value, lanes: int) -> None:
        """Write the rows before any update, unless they are there already."""
        if self.x is None:
            self._copy(block, first, last, lanes)
        else:
            with self.f.when(self.x.not_equal(self.y)):  # no carry of a loop that is updated in place
                self._copy(block, first, last, lanes)

    def _copy(self, block: Index, first: Value, last: Value, lanes: int) -> None:
        f, rows = self.f, self.rows
        for index in f.range(first, last):
            at = (block * rows.size + f.index(index)) * rows.after
            for j, many in line(f, rows.after, lanes):
                zero = f.constant(self.element.of(many), 0)
                f.store(zero if self.x is None else f.load(self.x + at, j, many), self.y + at, j)

    def join(self, block: Index, index: Value, update: Value, lanes: int, join: Combine) -> None:
        """Combine an update with a row."""
        f, rows = self.f, self.rows
        to, source = self.y + (block * rows.size + index) * rows.after, update * rows.after
        for j, many in line(f, rows.after, lanes):
            x = (
                f.constant(self.element.of(many), self.number)
                if self.number is not None
                else self._update(source, j, many)
            )
            f.store(join(f.load(to, j, many), x), to, j)

    def _update(self, source: Value, j: Index, lanes: int) -> Value:
        assert self.updates is not None, "they are read"
        return self.f.load(self.updates + source, j, lanes)


def gather(target: Target, op: OpTypes) -> KernelSteps:
    x, indices = op.present
    rows, bits = row_blocks(x, op.attributes["axis"]), Type("unsigned", 8 * ITEM_BYTES[x.dtype])
    if indices.dtype == "uint8" and rows.before == rows.after == 1 and rows.size >= BYTES:
        return read_table(bits, prod(indices.static_shape))
    return read_rows(target, bits, prod(indices.static_shape), rows, Lookup((rows.size,)))


def scatter_add(target: Target, op: OpTypes) -> KernelSteps:
    x, indices, _ = op.present
    rows = row_blocks(x, op.attributes["axis"])
    return reduce_rows(
        target, DTYPES[x.dtype], prod(indices.static_shape), rows, Lookup((rows.size,)), lambda a, b: a + b
    )


def bincount(target: Target, op: OpTypes) -> KernelSteps:
    [indices], rows = op.present, RowBlocks(1, op.attributes["depth"], 1)
    return reduce_rows(target, INT64, prod(indices.static_shape), rows, Lookup((rows.size,)), lambda a, b: a + b, 1)


def _selects_rows(op: OpTypes) -> bool:
    return op.operand(0).rank == 2 and op.attributes["axis"] % 2 == 0


def _selected_rows(context: KernelContext, op: OpTypes, addresses: Sequence[Value]) -> Read:
    table = op.operand(0)
    lookup, columns = Lookup(table.static_shape[:1]), table.static_shape[-1]

    def read(row: Index, column: Index, lanes: int, count: int) -> Value:
        at = addresses[0] + (lookup.row_number(context, addresses[1], row) * columns + column)
        return in_register(context.f.load(at, 0, lanes, count if lanes else None), table.dtype)

    return read


RULES["gather"] = CustomKernel(gather, frozenset(DTYPES) | HALVES, row_reader=RowReader(_selects_rows, _selected_rows))
RULES["scatter_add"] = CustomKernel(scatter_add, NUMERIC_DTYPES, overwrites_first=True)
RULES["bincount"] = CustomKernel(bincount, NUMERIC_DTYPES)

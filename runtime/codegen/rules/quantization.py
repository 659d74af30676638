"""Numbers of few bits in blocks that share a scale, widened in registers.

A vector of a row that lies in one block takes one scale. Vectors are no longer than a half of a block, in which the
elements of four bits are in the same half of their bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from runtime.codegen.costs import COPIED_BYTE_CYCLES
from runtime.codegen.ir import FLOAT32, INT32, UINT32, Function, Index, Type, Value
from runtime.codegen.ir.words import bits, convert, with_lane
from runtime.codegen.kernels.nest import along
from runtime.codegen.kernels.op_types import OpTypes
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps, Read
from runtime.codegen.machine import Target
from runtime.codegen.rules.rule import RULES, CustomKernel, RowReader

LEAST_BLOCK: Final = 32
"""A number that divides the elements of blocks that there is code for."""

INT8: Final = Type("signed", 8)

INSTRUCTIONS: Final = 8
"""Instructions for a vector."""

MAX_SCALES_BYTES: Final = 1 << 13
"""Upper bound on the bytes of widened scales, which stay in the nearest cache beside codes and a column."""


class _Blocks(NamedTuple):
    """The blocks of a row: how many there are, the bytes and the elements of one, and the bits of an element."""

    blocks: int
    nbytes: int
    size: int
    bits: int


def _blocks(op: OpTypes) -> _Blocks:
    codes, scales = (x.static_shape[-1] for x in op.present)
    nbytes = codes // scales
    return _Blocks(scales, nbytes, nbytes * 8 // op.attributes["bits"], op.attributes["bits"])


def dequantize(target: Target, op: OpTypes) -> KernelSteps:
    """Return one kernel step, whose work items are rows."""
    [y] = op.outputs
    columns, lanes = y.static_shape[-1], target.lanes(32)

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        f = context.f
        read = rows(context, op, [x for x in context.inputs if x is not None])
        for row in f.range(start, stop):

            def vector(column: Index, lanes: int, count: int, row: Index = row) -> None:
                at = f.index(row) * columns + column
                f.store(read(row, column, lanes, count), context.outputs[0], at, count if lanes else None)

            along(f, columns, lanes, vector)

    work_items = y.nbytes // (4 * columns)
    return KernelSteps((KernelStep(write, work_items, y.nbytes * COPIED_BYTE_CYCLES),))


def rows(context: KernelContext, op: OpTypes, addresses: Sequence[Value]) -> Read:
    """Return the function that widens a vector of a row."""
    f, blocks = context.f, _blocks(op)
    codes, scales = addresses

    def scale(row: Index, block: Index) -> Value:
        return convert(f.load(scales, f.index(row) * blocks.blocks + block), FLOAT32)

    return _reader(f, blocks, codes, scale)


def few_rows(context: KernelContext, op: OpTypes, addresses: Sequence[Value], first: Index, count: int) -> Read:
    """Return the function that widens a vector of one of `count` rows from `first` on, whose scales it widens now.

    An instruction widens a vector of scales, and later each is spread over a vector while it is loaded.
    """
    f, blocks = context.f, _blocks(op)
    codes, scales = addresses
    size = blocks.blocks * count
    if size * 4 > MAX_SCALES_BYTES:
        return rows(context, op, addresses)
    wide, start = f.buffer(f"scales_{size}", FLOAT32, size), f.index(first) * blocks.blocks

    def widen(at: Index, lanes: int, count: int) -> None:
        tail = count if lanes else None
        f.store(convert(f.load(scales, start + at, lanes, tail), FLOAT32), wide, at, tail)

    along(f, size, f.target.lanes(32), widen)

    def scale(row: Index, block: Index) -> Value:
        return f.load(wide, (f.index(row) - first) * blocks.blocks + block)

    return _reader(f, blocks, codes, scale)


def _reader(f: Function, blocks: _Blocks, codes: Value, scale: Callable[[Index, Index], Value]) -> Read:
    def read(row: Index, column: Index, lanes: int, count: int) -> Value:
        if lanes and not _is_multiple(column, lanes):
            return _gathered(f, read, row, column, lanes, count)
        position, block = f.index(column) % blocks.size, f.index(column) // blocks.size
        first = (f.index(row) * blocks.blocks + block) * blocks.nbytes
        tail = count if lanes else None
        if blocks.bits == 8:
            x = convert(bits(f.load(codes, first + position, lanes, tail), INT8), INT32)
        else:
            half = position // blocks.nbytes
            pair = convert(f.load(codes, first + position % blocks.nbytes, lanes, tail), UINT32)
            x = convert((pair >> convert(half * 4, UINT32)) & 15, INT32) - 8
        return convert(x, FLOAT32) * scale(row, block)

    return read


def _is_multiple(column: Index, lanes: int) -> bool:
    return column % lanes == 0 if isinstance(column, int) else column.multiple % lanes == 0


def _gathered(f: Function, read: Read, row: Index, column: Index, lanes: int, count: int) -> Value:
    """Return a vector of single elements; it may begin anywhere."""
    x = f.constant(FLOAT32.of(lanes), 0)
    for i in range(count):
        x = with_lane(x, i, read(row, f.index(column) + i, 0, 1))
    return x


def _has_code(op: OpTypes) -> bool:
    return _blocks(op).size % LEAST_BLOCK == 0


RULES["dequantize"] = CustomKernel(
    dequantize,
    frozenset({"uint8", "float16"}),
    supports=_has_code,
    row_reader=RowReader(_has_code, rows, INSTRUCTIONS, few_rows),
)

"""Running sums and products, and linear recurrences: sequential along an axis, vectors across the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from runtime.codegen.costs import SCANNED_ELEMENT_CYCLES
from runtime.codegen.ir import DTYPES, FLOAT64, Type, Value
from runtime.codegen.ir.words import convert, fma
from runtime.codegen.kernels.op_types import OpTypes
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.machine import Target
from runtime.codegen.rules.index import Combine, RowBlocks, row_blocks
from runtime.codegen.rules.rule import COMPUTED_DTYPES, FLOAT_DTYPES, RULES, CustomKernel

MAX_FLOAT32_STEPS: Final = 64
"""Elements of a running sum up to which it is kept in float32; longer ones are kept in float64."""


Step = Callable[[Value, Callable[[int], Value]], tuple[Value, Value]]
"""A function from the carried value, and a function that reads a numbered operand, to the next carried value and the
result."""


def running(join: Combine, identity: int, target: Target, op: OpTypes) -> KernelSteps:
    [x] = op.present
    rows, element = row_blocks(x, op.attributes["axis"]), DTYPES[x.dtype]
    written = element if element.is_float else DTYPES["int64"]
    carried = FLOAT64 if element.bits == 32 and element.is_float and rows.size > MAX_FLOAT32_STEPS else written

    def step(before: Value, operand: Callable[[int], Value]) -> tuple[Value, Value]:
        after = join(before, convert(operand(0), carried))
        return after, convert(before if op.attributes["exclusive"] else after, written)

    return along(target, rows, carried, identity, step, op.attributes["reverse"])


def cumsum(target: Target, op: OpTypes) -> KernelSteps:
    return running(lambda a, b: a + b, 0, target, op)


def cumprod(target: Target, op: OpTypes) -> KernelSteps:
    return running(lambda a, b: a * b, 1, target, op)


def linear_scan(target: Target, op: OpTypes) -> KernelSteps:
    a, _ = op.present

    def step(before: Value, operand: Callable[[int], Value]) -> tuple[Value, Value]:
        after = fma(operand(0), before, operand(1))
        return after, after

    return along(target, row_blocks(a, op.attributes["axis"]), DTYPES[a.dtype], 0, step, op.attributes["reverse"])


def along(target: Target, rows: RowBlocks, carried: Type, first: int, step: Step, reverse: bool) -> KernelSteps:
    """Return the kernel steps of a scan; a work item is a vector of columns of one block and goes along the rows."""
    lanes = target.lanes(carried.bits) if rows.after > 1 else 0
    whole, rest = divmod(rows.after, lanes) if lanes else (1, 0)
    vectors = whole + (rest > 0)

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        f = context.f
        scan = _Scan(context, rows, carried.of(lanes), first, step, reverse)
        for item in f.range(start, stop):
            block, vector = f.index(item) // vectors, f.index(item) % vectors
            is_whole = vector < whole
            if whole:
                with f.when(is_whole):
                    scan.columns(block, vector * max(lanes, 1), lanes)
            if rest:
                with f.when(~is_whole):
                    scan.columns(block, f.index(whole * lanes), rest)

    items = rows.before * vectors
    return KernelSteps((KernelStep(write, items, items * rows.size * SCANNED_ELEMENT_CYCLES),))


@dataclass(frozen=True)
class _Scan:
    context: KernelContext
    rows: RowBlocks
    carried: Type
    first: int
    step: Step
    reverse: bool

    def columns(self, block: Value, column: Value, count: int) -> None:
        """Scan `count` columns of a block."""
        f, rows = self.context.f, self.rows
        tail = count if self.carried.lanes else None
        loop = f.loop(0, rows.size, 1, [f.constant(self.carried, self.first)])
        for i, [before] in loop:
            row = rows.size - 1 - f.index(i) if self.reverse else f.index(i)
            index = (block * rows.size + row) * rows.after + column
            after, written = self.step(before, partial(self._read, index, tail))
            f.store(written, self.context.outputs[0], index, tail)
            loop.carry([after])

    def _read(self, index: Value, tail: int | None, number: int) -> Value:
        x = self.context.operand(number)
        return self.context.f.load(x, index, self.carried.lanes, tail)


RULES["cumsum"] = CustomKernel(cumsum, COMPUTED_DTYPES)
RULES["cumprod"] = CustomKernel(cumprod, COMPUTED_DTYPES)
RULES["linear_scan"] = CustomKernel(linear_scan, FLOAT_DTYPES)

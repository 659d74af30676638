"""Products with sparse rows.

A row of the product is one work item. A transposed product is split into ranges of its rows, each of which goes through
all positions, so that one thread adds to a row in the order of the positions: no bit depends on threads.
"""

from __future__ import annotations

from runtime.codegen.costs import INDEXED_ROW_CYCLES, PARTIAL_SUM_CYCLES
from runtime.codegen.ir import DTYPES, Type, Value
from runtime.codegen.ir.function import Function
from runtime.codegen.ir.words import fma, minimum
from runtime.codegen.kernels.moves import line
from runtime.codegen.kernels.op_types import OpTypes
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.machine import Target
from runtime.codegen.rules.index import index_ranges
from runtime.codegen.rules.lookup import Lookup
from runtime.codegen.rules.rule import NUMERIC_DTYPES, RULES, CustomKernel


def sparse_matmul(target: Target, op: OpTypes) -> KernelSteps:
    """Return the step of `sparse_matmul`."""
    positions, _, w = op.present
    (rows, count), (size, width) = positions.static_shape, w.static_shape
    element, lookup = DTYPES[w.dtype], Lookup((size,))
    lanes = target.vector_bytes * 8 // element.bits

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        f, (numbers, values, table) = context.f, _three(context)
        for row in f.range(start, stop):
            y, first = context.outputs[0] + f.index(row) * width, f.index(row) * count
            _clear(f, y, width, lanes, element)
            for k in f.range(0, count):
                index, value = lookup.row_number(context, numbers, first + k), f.load(values, first + k)
                with f.when(value.not_equal(0)):
                    _add_row(f, y, table + index * width, value, width, lanes)

    cost = rows * count * (INDEXED_ROW_CYCLES + width * PARTIAL_SUM_CYCLES)
    return KernelSteps((KernelStep(write, rows, cost),), has_runtime_check=True)


def sparse_outer_sum(target: Target, op: OpTypes) -> KernelSteps:
    """Return the step of `sparse_outer_sum`."""
    positions, _, b = op.present
    (rows, count), width, size = positions.static_shape, b.static_shape[1], int(op.attributes["size"])
    element, lookup = DTYPES[b.dtype], Lookup((size,))
    lanes = target.vector_bytes * 8 // element.bits
    ranges, length = index_ranges(rows * count, width, element, size)

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        f, (numbers, values, table) = context.f, _three(context)
        for piece in f.range(start, stop):
            first = f.index(piece) * length
            last = minimum(first + length, size)
            y = context.outputs[0]
            for row in f.range(first, last):
                _clear(f, y + f.index(row) * width, width, lanes, element)
            for i in f.range(0, rows):
                for k in f.range(0, count):
                    at = f.index(i) * count + k
                    index, value = lookup.row_number(context, numbers, at), f.load(values, at)
                    with f.when((index >= first) & (index < last) & value.not_equal(0)):
                        _add_row(f, y + index * width, table + f.index(i) * width, value, width, lanes)

    added = (rows * count + size) * width * PARTIAL_SUM_CYCLES
    return KernelSteps(
        (KernelStep(write, ranges, rows * count * ranges * INDEXED_ROW_CYCLES + added),), has_runtime_check=True
    )


def _three(context: KernelContext) -> tuple[Value, Value, Value]:
    numbers, values, table = map(context.operand, range(3))
    return numbers, values, table


def _clear(f: Function, y: Value, width: int, lanes: int, element: Type) -> None:
    for j, many in line(f, width, lanes):
        f.store(f.constant(element.of(many), 0), y, j)


def _add_row(f: Function, y: Value, x: Value, factor: Value, width: int, lanes: int) -> None:
    """Add a row times a number to a row."""
    for j, many in line(f, width, lanes):
        f.store(fma(f.load(x, j, many), factor, f.load(y, j, many)), y, j)


def _has_rows(op: OpTypes) -> bool:
    """Return True if there is a row to find; else the NumPy kernel computes the op and refuses all positions."""
    return op.attributes.get("size", op.present[2].static_shape[0]) > 0


RULES["sparse_matmul"] = CustomKernel(sparse_matmul, NUMERIC_DTYPES, _has_rows)
RULES["sparse_outer_sum"] = CustomKernel(sparse_outer_sum, NUMERIC_DTYPES, _has_rows)

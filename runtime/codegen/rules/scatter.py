"""Rows selected by several indices each: read, combined with updates, and the last of equal indices."""

from __future__ import annotations

from math import prod
from typing import Final

from prograd_proto import TensorType
from prograd_proto.dtypes import ITEM_BYTES
from runtime.codegen.costs import INDEXED_ROW_CYCLES
from runtime.codegen.ir import BOOL, DTYPES, INT64, Type, Value
from runtime.codegen.ir.words import convert, maximum, minimum
from runtime.codegen.kernels.op_types import OpTypes
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.machine import Target
from runtime.codegen.rules.index import Combine, RowBlocks, read_rows, reduce_rows
from runtime.codegen.rules.lookup import Lookup
from runtime.codegen.rules.rule import RULES, CustomKernel

ALL_DTYPES: Final = frozenset(ITEM_BYTES)

REDUCERS: Final[dict[str, Combine]] = {
    "add": lambda a, b: a + b,
    "max": maximum,
    "min": minimum,
    "mul": lambda a, b: a * b,
    "set": lambda a, b: b,
}


def gather_nd(target: Target, op: OpTypes) -> KernelSteps:
    x, indices = op.present
    rows, lookup, count = named(x.static_shape, indices, op.attributes["batch_axes"])
    return read_rows(target, Type("unsigned", 8 * ITEM_BYTES[x.dtype]), count, rows, lookup)


def scatter_nd(target: Target, op: OpTypes) -> KernelSteps:
    x, indices, _ = op.present
    rows, lookup, count = named(x.static_shape, indices, op.attributes["batch_axes"])
    return reduce_rows(target, DTYPES[x.dtype], count, rows, lookup, REDUCERS[op.attributes["reduction"]])


def is_last_index(target: Target, op: OpTypes) -> KernelSteps:
    """Return the steps of `is_last_index`.

    One thread writes, for each position, the last row of indices that selects it; then every row compares itself with
    it.
    """
    [indices] = op.present
    rows, lookup, count = named(op.attributes["shape"], indices, op.attributes["batch_axes"])

    def row(context: KernelContext, i: Value) -> tuple[Value, Value]:
        [numbers] = [x for x in context.inputs if x is not None]
        return context.shared_scratch(0, INT64), lookup.row_number(context, numbers, i)

    def note(context: KernelContext, start: Value, stop: Value) -> None:
        for i in context.f.range(0, count):
            last, index = row(context, context.f.index(i))
            context.f.store(context.f.index(i), last, index)

    def ask(context: KernelContext, start: Value, stop: Value) -> None:
        f = context.f
        for i in f.range(start, stop):
            last, index = row(context, f.index(i))
            f.store(convert(f.load(last, index).equal(f.index(i)), BOOL), context.outputs[0], i)

    steps = KernelStep(note, 1, count * INDEXED_ROW_CYCLES), KernelStep(ask, count, count * INDEXED_ROW_CYCLES)
    return KernelSteps(steps, (rows.size * INT64.bits // 8,), has_runtime_check=True)


def has_places(op: OpTypes) -> bool:
    """Return True if the tensor that the attribute `shape` describes has positions that indices can select.

    Otherwise the NumPy kernel computes the op and refuses all indices.
    """
    [indices] = op.present
    rows, _, _ = named(op.attributes["shape"], indices, op.attributes["batch_axes"])
    return rows.size > 0


def named(shape: tuple[int, ...], indices: TensorType, batch_axes: int) -> tuple[RowBlocks, Lookup, int]:
    """Return a tensor as rows that indices select, the lookup of these rows, and the number of index rows."""
    *counts, width = indices.static_shape
    after = batch_axes + width
    rows = RowBlocks(1, prod(shape[:after]), prod(shape[after:]))
    of_batch = prod(counts[batch_axes:]) if prod(counts[:batch_axes]) > 1 else 0
    return rows, Lookup(shape[batch_axes:after], of_batch), prod(counts)


RULES["gather_nd"] = CustomKernel(gather_nd, ALL_DTYPES)
RULES["scatter_nd"] = CustomKernel(scatter_nd, ALL_DTYPES, overwrites_first=True)
RULES["is_last_index"] = CustomKernel(is_last_index, ALL_DTYPES, has_places)

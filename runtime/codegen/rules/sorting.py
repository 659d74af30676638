"""Sorting, and the largest or smallest elements with their indices: short orders by insertion, longer ones by digits.

The first of equal elements comes first, and NaN is larger than any number.
"""

from __future__ import annotations

from typing import Final

from prograd_proto import TensorType
from runtime.codegen.costs import SORTED_ELEMENT_CYCLES
from runtime.codegen.ir import DTYPES, INT64, Type, Value
from runtime.codegen.ir.words import is_nan, minimum
from runtime.codegen.kernels.op_types import OpTypes
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.machine import Target
from runtime.codegen.rules.index import row_blocks
from runtime.codegen.rules.radix_sort import all_of_order
from runtime.codegen.rules.rule import NUMERIC_DTYPES, RULES, CustomKernel

MAX_INSERTED_ELEMENTS: Final = 32
"""Upper bound on the first elements that insertion finds; for more, the radix sort orders the whole row."""

MAX_VALUES_ONLY_ELEMENTS: Final = 24
"""Upper bound on the rows for which `sort`, which returns no indices, has code; NumPy sorts longer ones faster."""


def first_of_order(
    target: Target, x: TensorType, axis: int, count: int, largest: bool, outputs: tuple[int | None, int | None]
) -> KernelSteps:
    """Return the steps that order the first `count` elements of every row along an axis, by insertion.

    `outputs` are the numbers of the results for elements and for indices.
    """
    rows, element = row_blocks(x, axis), DTYPES[x.dtype]

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        f = context.f
        moving = f.local()
        kept = _FirstElements(context, element, count, largest, moving)
        source = context.operand(0)
        for item in f.range(start, stop):
            block, column = f.index(item) // rows.after, f.index(item) % rows.after
            for i in f.range(0, rows.size):
                kept.insert(f.load(source, (block * rows.size + i) * rows.after + column), f.index(i))
            for i in f.range(0, count):
                index = (block * count + i) * rows.after + column
                for value, output in zip((kept.elements, kept.places), outputs, strict=True):
                    if output is not None:
                        f.store(f.load(value, i), context.outputs[output], index)

    items = rows.before * rows.after
    own = tuple(max(count * type.bits // 8, 64) for type in (element, INT64))
    return KernelSteps((KernelStep(write, items, items * rows.size * SORTED_ELEMENT_CYCLES),), thread_scratch=own)


class _FirstElements:
    """The first elements so far, in order, and their indices."""

    def __init__(self, context: KernelContext, element: Type, count: int, largest: bool, moving: Value) -> None:
        self.f, self.element, self.count, self.largest, self.moving = context.f, element, count, largest, moving
        self.elements, self.places = context.thread_scratch(0, element), context.thread_scratch(1, INT64)

    def insert(self, x: Value, index: Value) -> None:
        """Insert the row's next element at its position in the order, behind equal ones, if it is among the first."""
        f, last = self.f, self.count - 1
        belongs = (index < self.count) | self._is_before(x, f.load(self.elements, last))
        with f.when(belongs):
            end = f.index(last)
            f.store(minimum(index, end), self.moving)
            with f.forever() as shifting:
                at = f.load(self.moving)
                shifting.end_if(at.equal(0))
                one = f.load(self.elements, at - 1)
                shifting.end_if(~self._is_before(x, one))
                f.store(one, self.elements, at)
                f.store(f.load(self.places, at - 1), self.places, at)
                f.store(at - 1, self.moving)
            at = f.load(self.moving)
            f.store(x, self.elements, at)
            f.store(index, self.places, at)

    def _is_before(self, x: Value, other: Value) -> Value:
        """Return True, as a scalar, if x comes before an element that was inserted earlier."""
        if not self.element.is_float:
            return x > other if self.largest else x < other
        if self.largest:
            return (x > other) | (is_nan(x) & ~is_nan(other))
        return (x < other) | (is_nan(other) & ~is_nan(x))


def topk(target: Target, op: OpTypes) -> KernelSteps:
    [x] = op.present
    return in_order(target, x, op.attributes["axis"], op.attributes["k"], op.attributes["largest"], (0, 1))


def argsort(target: Target, op: OpTypes) -> KernelSteps:
    return all_in_order(target, op, (None, 0))


def sort(target: Target, op: OpTypes) -> KernelSteps:
    return all_in_order(target, op, (0, None))


def all_in_order(target: Target, op: OpTypes, outputs: tuple[int | None, int | None]) -> KernelSteps:
    [x] = op.present
    axis: int = op.attributes["axis"]
    return in_order(target, x, axis, x.static_shape[axis], op.attributes["descending"], outputs)


def in_order(
    target: Target, x: TensorType, axis: int, count: int, largest: bool, outputs: tuple[int | None, int | None]
) -> KernelSteps:
    """Return the steps that order the first `count` elements of every row: by insertion if few, else by digits."""
    if count <= MAX_INSERTED_ELEMENTS:
        return first_of_order(target, x, axis, count, largest, outputs)
    return all_of_order(x, axis, count, largest, outputs)


def keeps_few(op: OpTypes) -> bool:
    """Return True if rows are short enough; a NumPy kernel sorts longer ones faster."""
    [x] = op.present
    axis: int = op.attributes["axis"]
    return x.static_shape[axis] <= MAX_VALUES_ONLY_ELEMENTS


RULES["topk"] = CustomKernel(topk, NUMERIC_DTYPES)
RULES["argsort"] = CustomKernel(argsort, NUMERIC_DTYPES)
RULES["sort"] = CustomKernel(sort, NUMERIC_DTYPES, keeps_few)

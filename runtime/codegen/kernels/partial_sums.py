"""Partial sums, added in order by all threads."""

from __future__ import annotations

from typing import Final

from runtime.codegen.costs import PARTIAL_SUM_CYCLES
from runtime.codegen.ir import Type, Value
from runtime.codegen.ir.words import convert, minimum
from runtime.codegen.kernels.matmul.packing import pieces
from runtime.codegen.kernels.steps import KernelContext, KernelStep

ELEMENTS_PER_ITEM: Final = 2048
"""Elements of the result that one work item reduces."""


def reduction_step(element: Type, lanes: int, size: int, parts: int, number: int = 0, output: int = 0) -> KernelStep:
    """Return the step that adds `parts` partial sums of `size` elements, from a shared scratch, into a result.

    Sums are converted to the type of the result.
    """

    def join(context: KernelContext, start: Value, stop: Value) -> None:
        f = context.f
        partial, result = context.shared_scratch(number, element), context.outputs[output]
        for item in f.range(start, stop):
            first = f.index(item) * ELEMENTS_PER_ITEM
            for i, many in pieces(f, minimum(size - first, ELEMENTS_PER_ITEM), lanes):
                total = f.load(partial, first + i, many)
                for part in range(1, parts):
                    total = total + f.load(partial + part * size, first + i, many)
                f.store(convert(total, result.element), result, first + i)

    return KernelStep(join, -(-size // ELEMENTS_PER_ITEM), size * parts * PARTIAL_SUM_CYCLES)

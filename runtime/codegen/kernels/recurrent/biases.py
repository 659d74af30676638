"""The gradients of biases: gradients of preactivations, summed over the rows of a step and then over steps.

They are added up where the product of the step reads them too, while they are in the first-level cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from runtime.codegen.ir import Value
from runtime.codegen.ir.words import where
from runtime.codegen.kernels.recurrent.layer import Layer, StatePosition
from runtime.codegen.kernels.steps import KernelContext

NEW_GATE_BLOCK: Final = 3
"""The block of scratch with the gradient of a GRU's last preactivation; the gradient of its product is in block 2."""


def blocks(layer: Layer, sums: Sequence[int]) -> list[Sequence[int]]:
    """Return the blocks of scratch with the gates of each sum."""
    both = (0, 1, NEW_GATE_BLOCK), (0, 1, 2)
    return [both[which] if layer.gates == 3 else range(layer.gates) for which in sums]


def needs_new(layer: Layer, sums: Sequence[int]) -> bool:
    """Return True if scratch has a block that the product does not read."""
    return layer.gates == 3 and 0 in sums


def add_up(
    context: KernelContext,
    layer: Layer,
    step: Value,
    at: StatePosition,
    gradient: Value,
    apart: int,
    indices: Sequence[int],
    to: Value,
) -> None:
    """Add, for each gate, the sum of a vector over all rows, `apart` from each other, to earlier steps' sums."""
    f, zero = context.f, context.f.constant(layer.vector, 0)
    loop = f.loop(0, layer.rows, 1, [zero] * layer.gates)
    for row, totals in loop:
        here = gradient + row * apart
        loop.carry([x + f.load(here, index, layer.lanes) for x, index in zip(totals, indices, strict=True)])
    for gate, total in enumerate(loop.results):
        before = f.load(to + at.first, gate * layer.states, layer.lanes, at.tail)
        f.store(total + where(step.equal(0), zero, before), to + at.first, gate * layer.states, at.tail)

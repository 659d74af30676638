"""The moves of an op as work items that threads share: ranges of lines, positions of the axes around them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from runtime.codegen.ir import Value
from runtime.codegen.ir.words import maximum, minimum
from runtime.codegen.kernels.moves.move import Move
from runtime.codegen.kernels.moves.writing import PlannedMove, written
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.machine import Target


def move_steps(target: Target, bits: int, layers: Sequence[Sequence[Move]]) -> KernelSteps:
    """Return a kernel step for each layer of moves.

    The moves of a layer write nothing twice; later layers may overwrite the results of earlier ones.
    """
    return KernelSteps(tuple(_step([written(target, bits, move.simple) for move in layer]) for layer in layers))


def _step(moves: Sequence[PlannedMove]) -> KernelStep:
    def write(context: KernelContext, start: Value, stop: Value) -> None:
        if len(moves) == 1:
            moves[0].write(context, start, stop)
            return
        first = 0
        for move in moves:
            begin, end = maximum(start, first) - first, minimum(stop, first + prod(move.work_items)) - first
            move.write(context, begin, end)
            first += prod(move.work_items)

    return KernelStep(write, sum(prod(move.work_items) for move in moves), sum(move.cost for move in moves))

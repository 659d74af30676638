"""The moves of an op as units that threads share: stretches of lines, places of the axes around them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from runtime.engines.native.forms.moves.move import Move
from runtime.engines.native.forms.moves.writing import Written, written
from runtime.engines.native.forms.stages import Stage, Stages, Work
from runtime.engines.native.ir import Value
from runtime.engines.native.ir.words import maximum, minimum
from runtime.engines.native.target import Target


def move_stages(target: Target, bits: int, layers: Sequence[Sequence[Move]]) -> Stages:
    """A stage for each layer; the moves of a layer write nothing twice, later layers may write over earlier ones."""
    return Stages(tuple(_stage([written(target, bits, move.simple) for move in layer]) for layer in layers))


def _stage(moves: Sequence[Written]) -> Stage:
    def write(work: Work, start: Value, stop: Value) -> None:
        if len(moves) == 1:
            moves[0].write(work, start, stop)
            return
        first = 0
        for move in moves:
            begin, end = maximum(start, first) - first, minimum(stop, first + prod(move.units)) - first
            move.write(work, begin, end)
            first += prod(move.units)

    return Stage(write, sum(prod(move.units) for move in moves), sum(move.cost for move in moves))

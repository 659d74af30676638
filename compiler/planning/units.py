"""Recompute the forward pass in units, such as the layers of a transformer, from what enters each unit.

1. The forward ops are cut where few bytes cross: where values that earlier ops made and later forward ops read are the
   fewest, such as the sum that runs through the layers. The ops between two cuts are a unit; several units may become
   one.
2. A unit is recomputed by repeating the ops whose results the backward pass needs, right before the first backward op
   that reads one of them. They read the values that cross the cut before the unit, which are kept.
3. The first units wait longest for their gradients, so they are recomputed first, one after the other, until the
   budget is met.

Each op is repeated at most once, so a step takes at most the operations of one more forward pass. That is the scheme of
Chen et al., "Training deep nets with sublinear memory cost" (2016), with cuts that are found.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Final

from compiler.planning.timeline import Timeline, repeat_unit
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis

WIDTHS: Final = (1, 2, 3, 4, 6, 8)
"""Numbers of stretches between cuts that a unit may have."""

NARROW: Final = 1.25
"""A place is a cut if its crossing bytes are at most this multiple of the fewest crossing bytes nearby."""

NEAR: Final = 24
"""Number of forward ops on each side of a place among which the cut must be the narrowest."""

LEAST_UNITS: Final = 3
"""Number of units from which recomputation by units is worth a try."""


def by_units(timeline: Timeline, costs: Sequence[int], budget: int, forward: Collection[int]) -> Timeline | None:
    """Return the cheapest timeline with recomputed units that keeps the budget, or else that with the lowest peak.

    None if the forward pass has too few units.

    Args:
        timeline: of the block, without repetitions.
        costs: the operations of each op of the block.
        budget: bytes.
        forward: the numbers of the forward ops.
    """
    order = forward_phase(timeline, forward)
    forward, stretches = set(order), _stretches(timeline, order)
    best: Timeline | None = None
    for width in WIDTHS:
        units = [sum(stretches[at : at + width], list[int]()) for at in range(0, len(stretches), width)]
        if len(units) < LEAST_UNITS:
            break
        trial = _recomputed(timeline, units, budget, forward)
        if best is None or _rank(trial, costs, budget) < _rank(best, costs, budget):
            best = trial
    return best


def forward_ops(block: BlockAnalysis) -> set[int]:
    """Return the numbers of the forward ops of a block.

    Ops that the backward pass runs again are left out, and ops that only updates read, such as those of a rate.
    """
    others = {fetch.tensor for fetch in block.desc.fetches}
    found = set[int]()
    for number, op in reversed([*enumerate(block.ops)]):
        is_read = not others.isdisjoint(op.outputs) or not block.desc.updates
        if op.stage == pb.STAGE_FORWARD and is_read and not op.recompute_of:
            found.add(number)
        if op.stage != pb.STAGE_UPDATE and (is_read or op.stage != pb.STAGE_FORWARD):
            others.update(op.inputs)
    return found


def forward_phase(timeline: Timeline, forward: Collection[int]) -> list[int]:
    """Return the ops up to the last forward one that the backward pass reads, in order.

    Ops of gradients that read nothing but forward values may be among them.
    """
    graph = timeline.graph
    read = {op for op in forward for value in graph.writes[op] if any(i not in forward for i in graph.readers[value])}
    return timeline.order[: 1 + max((timeline.position[op] for op in read), default=-1)]


def _rank(timeline: Timeline, costs: Sequence[int], budget: int) -> tuple[int, int]:
    return max(budget, timeline.peak), timeline.cost(costs)


def _stretches(timeline: Timeline, order: Sequence[int]) -> list[list[int]]:
    """Return the forward ops between cuts, in order."""
    crossing = _crossing(timeline, order)
    cuts = [0]
    for at in range(1, len(order)):
        near = crossing[max(1, at - NEAR) : at + NEAR]
        if crossing[at] <= NARROW * min(near) and (crossing[at] < crossing[at - 1] or at == 1):
            cuts.append(at)
    return [list(order[a:b]) for a, b in pairwise([*cuts, len(order)])]


def _crossing(timeline: Timeline, order: Sequence[int]) -> list[int]:
    """Return for each place in the forward pass the bytes that ops before it made and forward ops behind it read."""
    graph = timeline.graph
    at = {op: number for number, op in enumerate(order)}
    change = [0] * (len(order) + 1)
    for op in order:
        for value in graph.writes[op]:
            last = max((at[reader] for reader in graph.readers[value] if reader in at), default=at[op])
            change[at[op] + 1] += graph.nbytes[value]
            change[last + 1] -= graph.nbytes[value]
    crossing, now = list[int](), 0
    for number in range(len(order)):
        now += change[number]
        crossing.append(now)
    return crossing


def _recomputed(timeline: Timeline, units: Sequence[Sequence[int]], budget: int, forward: Collection[int]) -> Timeline:
    """Return the timeline with as many units recomputed, from the first on, as the budget takes."""
    for unit in units[:-1]:  # the gradients of the last one follow it
        if timeline.peak <= budget:
            break
        trial = with_unit(timeline, unit, forward)
        if trial is not None:
            timeline = trial
    return timeline


def with_unit(timeline: Timeline, unit: Sequence[int], forward: Collection[int]) -> Timeline | None:
    """Return the timeline with a unit recomputed before the first backward op that reads it; None if none does."""
    graph, position, inside = timeline.graph, timeline.position, set(unit)
    saved: list[int] = []
    first = len(timeline.order)
    for value in (value for op in unit for value in graph.writes[op]):
        readers = [reader for reader in graph.readers[value] if timeline.ops[reader] not in forward]
        leaves = any(reader not in inside and reader in forward for reader in graph.readers[value])
        if not readers or leaves or graph.lasts[value] or not graph.nbytes[value] or not timeline.may_repeat(value):
            continue
        saved.append(value)
        first = min(first, *(position[reader] for reader in readers))
    if not saved:
        return None
    return repeat_unit(timeline, sorted(_makers(timeline, saved, inside)), first)


def _makers(timeline: Timeline, saved: Sequence[int], inside: Collection[int]) -> set[int]:
    """Return the ops of a unit that compute the saved values from the inputs of the unit."""
    chosen: set[int] = set()
    waiting = [timeline.made_by[value] for value in saved]
    while waiting:
        op = waiting.pop()
        if op in chosen:
            continue
        chosen.add(op)
        for value in timeline.graph.reads[op]:
            maker = timeline.made_by[value]
            if maker in inside and timeline.may_repeat(value):
                waiting.append(maker)
    return chosen

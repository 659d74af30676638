"""Pass: run the ops in the order that needs the least memory, among a few.

1. An order is legal under three conditions. Every op runs after the producers of its operands. An update runs after
   the earlier readers of the state that it overwrites. Ops with effects on one resource keep their order
   (`runtime.step.effects`).
2. The candidates are the order of the source with every update as soon as it can run; just the order of the source;
   each op before the first one that needs it; the ready op that frees the most bytes first, as in the list schedulers
   of compilers (Sethi, 1975, shows that the best order is NP-hard to find); and each op before the first one that needs
   it, from the last update back, except for ops with large operands and small results, which run at once. The last one
   takes parts of a batch one by one, forwards and back, where their losses only meet in a sum.
3. The first one with the lowest peak is taken, so no block needs more than in the order of its source; if the peak is
   what one op alone needs, no order has a lower one, and no further candidate is tried. Its updates, too, run as soon
   as they can, unless that takes more.
4. Bits do not depend on the order: random numbers are counted, and sums have an order of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final

from compiler.analyses.step_graph import StepGraph, step_graph
from compiler.passes.eliminate_dead_ops import order_tensors
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis

FAR: Final = 0.9
"""Share of the peak below which an order is taken that is far from the source's."""

LEAST_SAVED: Final = 1 << 20
"""Least bytes for which such an order is taken."""

REDUCES: Final = 16
"""Least ratio of the largest operand and the largest result of an op that makes little of much, as a loss does."""

Order = list[int]
Candidate = Callable[[BlockAnalysis, StepGraph], Order]


def order_ops(program: BlockAnalyses) -> None:
    """Put the ops into the order, among a few, that needs the least memory; updates follow their gradients."""
    for block in reversed(program.bound):  # the memory of an op includes that of the blocks inside it
        graph = step_graph(block)
        best, least = best_order(block, graph)
        early = with_updates_first(block, graph, best)
        if early != best and graph.peak(early) <= least:
            best = early
        if best != sorted(best):
            reorder(block, best)


def best_order(block: BlockAnalysis, graph: StepGraph) -> tuple[Order, int]:
    """Return the first of the candidates with the lowest peak, and that peak."""
    best, least, floor = as_written(block, graph), inf, graph.floor()
    for candidate in CANDIDATES:
        order = candidate(block, graph)
        need = graph.peak(order, least)
        if need < (min(least * FAR, least - LEAST_SAVED) if candidate is on_demand_reducing else least):
            best, least = order, need
        if least == floor:
            break
    return best, int(least)


def as_written(block: BlockAnalysis, graph: StepGraph) -> Order:
    """Return the order of the source."""
    return list(range(len(block.ops)))


def updates_first(block: BlockAnalysis, graph: StepGraph) -> Order:
    """Return the order of the source with every update as early as possible: its gradient dies at once."""
    return with_updates_first(block, graph, as_written(block, graph))


def with_updates_first(block: BlockAnalysis, graph: StepGraph, order: Order) -> Order:
    """Return an order with every update as early as possible."""
    stages = block.stages
    early = [stage == pb.STAGE_UPDATE for stage in stages]
    if not any(early):
        return order
    for i in reversed(range(len(early))):  # operands of an update besides its gradient, such as its rate
        for j in graph.before[i] if early[i] else ():
            early[j] = early[j] or (stages[j] == pb.STAGE_FORWARD and _serves_early(graph, j, early))
    return _ranked(graph, [*(i for i in order if early[i]), *(i for i in order if not early[i])])


def on_demand(block: BlockAnalysis, graph: StepGraph) -> Order:
    """Return an order with each op right before the first op that needs it, starting from the updates."""
    return _demanded(block, graph, updates_first(block, graph))


def on_demand_reducing(block: BlockAnalysis, graph: StepGraph) -> Order:
    """Return the order on demand of the last goals first, with ops that make little of much as early as possible."""
    order = _demanded(block, graph, updates_first(block, graph)[::-1])
    early = {i for i in order if REDUCES * _most(graph, graph.writes[i]) <= _most(graph, graph.reads[i])}
    return _ranked(graph, [*(i for i in order if i in early), *(i for i in order if i not in early)])


def _most(graph: StepGraph, values: Sequence[int]) -> int:
    """Return the bytes of the largest of some values."""
    return max((graph.nbytes[value] for value in values), default=0)


def _demanded(block: BlockAnalysis, graph: StepGraph, goals: Sequence[int]) -> Order:
    """Return an order with each op right before the first op that needs it, for one goal after the other."""
    order: dict[int, None] = {}
    for goal in goals:
        stack = [(goal, iter(graph.before[goal]))] if _is_goal(block, graph, goal) and goal not in order else []
        while stack:
            i, needed = stack[-1]
            for j in needed:
                if j not in order:
                    stack.append((j, iter(graph.before[j])))
                    break
            else:
                stack.pop()
                order[i] = None
    return list(order)


def frees_most(block: BlockAnalysis, graph: StepGraph) -> Order:
    """Return a list schedule that picks the ready op with the fewest live bytes, then the first in the source."""
    missing = [len(ops) + last for ops, last in zip(graph.readers, graph.lasts, strict=True)]
    made = [sum(graph.nbytes[value] for value in writes if graph.readers[value]) for writes in graph.writes]

    def growth(i: int) -> int:
        return made[i] - sum(graph.nbytes[value] for value in graph.reads[i] if missing[value] == 1)

    waits = [len(before) for before in graph.before]
    after = graph.after
    ready = [(growth(i), i) for i, count in enumerate(waits) if not count]
    heapify(ready)
    order: dict[int, None] = {}
    while ready:
        _, i = heappop(ready)
        if i in order:
            continue
        order[i] = None
        for value in graph.reads[i]:
            missing[value] -= 1
        freed = [j for value in graph.reads[i] if missing[value] == 1 for j in graph.readers[value]]  # move up
        for j in after[i]:
            waits[j] -= 1
        for j in {*freed, *after[i]}:
            if not waits[j] and j not in order:
                heappush(ready, (growth(j), j))
    return list(order)


CANDIDATES: tuple[Candidate, ...] = (updates_first, as_written, on_demand, frees_most, on_demand_reducing)


def _serves_early(graph: StepGraph, i: int, early: list[bool]) -> bool:
    return all(early[j] for value in graph.writes[i] for j in graph.readers[value])


def _ranked(graph: StepGraph, ranking: Sequence[int]) -> Order:
    """Return a list schedule that picks the ready op of the best rank."""
    rank = dict(zip(ranking, range(len(ranking)), strict=True))
    waits = [len(before) for before in graph.before]
    after = graph.after
    ready = [rank[i] for i, count in enumerate(waits) if not count]
    heapify(ready)
    order: Order = []
    while ready:
        i = ranking[heappop(ready)]
        order.append(i)
        for j in after[i]:
            waits[j] -= 1
            if not waits[j]:
                heappush(ready, rank[j])
    return order


def _is_goal(block: BlockAnalysis, graph: StepGraph, i: int) -> bool:
    """Return True if only the end of the step needs the op, as an update or a fetch."""
    return block.stages[i] == pb.STAGE_UPDATE or not any(graph.readers[value] for value in graph.writes[i])


def reorder(block: BlockAnalysis, order: Order) -> None:
    """Put the ops of a block into a legal order, and its tensors into that of their definitions."""
    block.reorder_ops(order)
    order_tensors(block)

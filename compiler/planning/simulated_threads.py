"""Simulation of ops on several threads by estimated cost: the start and end of each op.

A free thread takes, among the ops whose predecessors are done, the one of the lowest rank (Graham's list scheduling,
1969). Times are in operations (`compiler.analyses.costs`), so they are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple


class SimulatedRun(NamedTuple):
    """The order in which ops start, by rank if they start at once, and the start and end of each op."""

    order: list[int]
    start: list[int]
    stop: list[int]


def times_faster(before: Sequence[Collection[int]], costs: Sequence[int], threads: int) -> float:
    """Return the speed-up of threads that take the op with the longest path to the end first; at least 1."""
    run = run_on(threads, before, costs, [-way for way in _ways_to_the_end(before, costs)])
    return sum(costs) / max(1, *run.stop) if any(costs) else 1.0


def run_on(
    threads: int, before: Sequence[Collection[int]], costs: Sequence[int], ranks: Sequence[int] | None = None
) -> SimulatedRun:
    """Return a simulated run of the ops on threads, each op after those before it.

    Args:
        threads: number of threads, at least 1.
        before: the predecessors of each op, which must be done before it starts.
        costs: the operations of each op.
        ranks: priority of each op, lowest first; ties go to the earlier op. The default is the order of the list.
    """
    ranks = ranks or [0] * len(costs)
    after = _after(before)
    waits = [len(needed) for needed in before]
    ready = [(ranks[i], i) for i, count in enumerate(waits) if not count]
    heapify(ready)
    running: list[tuple[int, int]] = []  # end of each op
    run = SimulatedRun([], [0] * len(costs), [0] * len(costs))
    now = 0
    while ready or running:
        while ready and len(running) < threads:
            _, i = heappop(ready)
            run.order.append(i)
            run.start[i], run.stop[i] = now, now + costs[i]
            heappush(running, (run.stop[i], i))
        now = running[0][0]
        while running and running[0][0] == now:
            _, i = heappop(running)
            for j in after[i]:
                waits[j] -= 1
                if not waits[j]:
                    heappush(ready, (ranks[j], j))
    return run


def _after(before: Sequence[Collection[int]]) -> list[list[int]]:
    after: list[list[int]] = [[] for _ in before]
    for i, needed in enumerate(before):
        for j in needed:
            after[j].append(i)
    return after


def _ways_to_the_end(before: Sequence[Collection[int]], costs: Sequence[int]) -> list[int]:
    """Return the cost of each op plus that of the longest path through its successors."""
    ways = list(costs)
    for i, after in reversed(list(enumerate(_after(before)))):
        ways[i] += max((ways[j] for j in after), default=0)
    return ways

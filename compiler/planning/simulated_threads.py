"""Ops on several threads, by what they are estimated to cost: when each one starts and stops.

A thread that is free takes, of the ops whose predecessors are done, the one of the lowest rank (Graham's list
scheduling, 1969). The moments are operations (`compiler.analyses.costs`), so they are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple


class SimulatedRun(NamedTuple):
    """The order in which ops start, those that start at once by rank, and of each op the two moments."""

    order: list[int]
    start: list[int]
    stop: list[int]


def times_faster(before: Sequence[Collection[int]], costs: Sequence[int], threads: int) -> float:
    """Return all costs through the time on so many threads, which begin with the longest way to the end; 1 at least."""
    run = run_on(threads, before, costs, [-way for way in _ways_to_the_end(before, costs)])
    return sum(costs) / max(1, *run.stop) if any(costs) else 1.0


def run_on(
    threads: int, before: Sequence[Collection[int]], costs: Sequence[int], ranks: Sequence[int] | None = None
) -> SimulatedRun:
    """Let threads run ops, each after those before it.

    Args:
        threads: 1 or more.
        before: of each op the earlier ops that must be done before it starts.
        costs: of each op.
        ranks: what is taken first, and of two of one rank the earlier op; unless given, the order of the list.
    """
    ranks = ranks or [0] * len(costs)
    after = _after(before)
    waits = [len(needed) for needed in before]
    ready = [(ranks[i], i) for i, count in enumerate(waits) if not count]
    heapify(ready)
    running: list[tuple[int, int]] = []  # when each op stops
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
    """Of each op its cost, and that of the longest way through what waits for it."""
    ways = list(costs)
    for i, after in reversed(list(enumerate(_after(before)))):
        ways[i] += max((ways[j] for j in after), default=0)
    return ways

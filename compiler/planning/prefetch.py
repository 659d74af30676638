"""Reload spilled values before they are needed.

1. A reload is inserted right before the first use of its value, where it takes the least memory. The runtime copies on
   a thread of its own, so every op between a reload and the first use hides some of its latency.
2. Reloads are visited in order. Each moves ahead of earlier ops while its value fits into the budget beside the values
   that are live there. It stops when the ops in between cost `PREFETCH_RATIO` times the operations of
   the copy (`OPERATIONS_PER_MOVED_BYTE`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from compiler.planning.time_limit import TimeLimit
from compiler.planning.timeline import OPERATIONS_PER_MOVED_BYTE, RELOAD, Timeline

PREFETCH_RATIO: Final = 2
"""Operations between the start and the use of a copy, as a multiple of its own: storage may be slow."""


def prefetch(timeline: Timeline, costs: Sequence[int], budget: int, limit: TimeLimit | None = None) -> Timeline:
    """Return the timeline with earlier reloads, as far as the budget in bytes and the time limit allow."""
    for i in [i for i in timeline.order if timeline.ops[i] == RELOAD]:
        if limit is not None and limit.is_over:
            break
        earlier = _earlier(timeline, costs, budget, i)
        if earlier.peak <= max(budget, timeline.peak):
            timeline = earlier
    return timeline


def _earlier(timeline: Timeline, costs: Sequence[int], budget: int, i: int) -> Timeline:
    position, live, order = timeline.position[i], timeline.live, timeline.order
    [slot], nbytes = timeline.graph.reads[i], timeline.moved(i)
    first = timeline.position[timeline.made_by[slot]] + 1
    at, left = position, PREFETCH_RATIO * OPERATIONS_PER_MOVED_BYTE * nbytes
    while at > first and left > 0 and live[at - 1] + nbytes <= budget:
        at -= 1
        op = timeline.ops[order[at]]
        left -= costs[op] if op >= 0 else 0
    return replace(timeline, order=[*order[:at], i, *order[at:position], *order[position + 1 :]])

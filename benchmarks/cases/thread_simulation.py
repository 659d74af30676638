"""A simulation of the threads of a native step: its phases, with the time of every chunk, on any number of threads.

The rule is that of `runtime/codegen/emit/driver.py`. Each thread has a range of the chunks of a phase and takes them in
order; a thread without chunks takes from the ranges of the next threads. A phase ends when all of its chunks are done.
Times are microseconds. What a machine with more cores adds is assumed: the times of a claim and of a barrier. Memory
bandwidth and lines that move between caches are left out.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import pairwise

from runtime.codegen.costs import CYCLE_NANOSECONDS, barrier_cycles

CLAIM, CLAIM_OF_OTHERS = 0.05, 0.1
"""Assumed microseconds in which a thread takes a chunk of its own range, and of another thread's."""


def barrier_time(threads: int) -> float:
    """Return the microseconds between the last chunk of a phase and the first of the next, by the cost model."""
    return barrier_cycles(threads) * CYCLE_NANOSECONDS / 1000


def step_time(phases: Sequence[Sequence[float]], threads: int) -> float:
    """Return the time of a step whose phases have chunks of these times."""
    return sum(phase_time(chunks, threads) for chunks in phases)


def phase_time(chunks: Sequence[float], threads: int) -> float:
    """Return the time of a phase; the calling thread computes a phase of one chunk without the others."""
    if threads < 2 or len(chunks) < 2:
        return sum(chunks)
    ranges = own_ranges(len(chunks), threads)
    taken = [first for first, _ in ranges]
    free = [(0.0, thread) for thread in range(threads)]
    end = 0.0
    for _ in chunks:
        now, thread = heapq.heappop(free)
        owner = next(
            owner % threads for owner in range(thread, thread + threads) if _is_left(taken, ranges, owner % threads)
        )
        done = now + (CLAIM if owner == thread else CLAIM_OF_OTHERS) + chunks[taken[owner]]
        taken[owner] += 1
        end = max(end, done)
        heapq.heappush(free, (done, thread))
    return end + barrier_time(threads)


def share_of_barriers(phases: Sequence[Sequence[float]], threads: int) -> float:
    """Return the share of the time of a step in which its threads meet."""
    barriers = sum(len(chunks) > 1 for chunks in phases) if threads > 1 else 0
    return barriers * barrier_time(threads) / step_time(phases, threads)


def own_ranges(count: int, threads: int) -> list[tuple[int, int]]:
    """Return the first chunk of each thread, and the one after its last."""
    bounds = [-(-count * thread // threads) for thread in range(threads + 1)]
    return list(pairwise(bounds))


def even_time(phases: Sequence[Sequence[float]], threads: int, least: float) -> float:
    """Return the time of a step if each phase were split evenly into chunks of at least `least` microseconds."""
    total = 0.0
    for chunks in phases:
        work = sum(chunks)
        parts = min(threads, max(int(work / least), 1))
        total += work / parts + (barrier_time(threads) if parts > 1 else 0)
    return total


def _is_left(taken: Sequence[int], ranges: Sequence[tuple[int, int]], owner: int) -> bool:
    return taken[owner] < ranges[owner][1]

"""The default number of threads of a step: the least that is about as fast as any.

A phase on T threads takes at least as long as its longest chunk, and as the chunks of the thread that has most of them.
A barrier takes longer with every thread. So steps of few or short chunks are fastest on a few threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from runtime.codegen.costs import CHUNK_CYCLES, barrier_cycles
from runtime.codegen.machine import THREAD_CLASSES

if TYPE_CHECKING:
    from runtime.codegen.lowering.chunks import Chunk
    from runtime.codegen.rules import KernelSteps

MAX_SLOWDOWN: Final = 1.02
"""Upper bound on the slowdown by fewer threads, which leave cores to other work."""

Cycles = Sequence[Sequence[float]]
"""The cycles of each chunk of each phase."""


def useful_threads(phases: Cycles, threads: int) -> int:
    """Return the least number of threads, at most `threads`, on which the phases take next to the least time."""
    threads = min(threads, max(map(len, phases), default=1))  # more would find no chunk
    numbers = sorted({1, threads, *(number for number in THREAD_CLASSES if number < threads)})
    times = [step_cycles(phases, number) for number in numbers]
    return next(number for number, time in zip(numbers, times, strict=True) if time <= MAX_SLOWDOWN * min(times))


def step_cycles(phases: Cycles, threads: int) -> float:
    """Return the estimated cycles of a step on this number of threads."""
    return sum(_phase_cycles(chunks, threads) for chunks in phases)


def _phase_cycles(chunks: Sequence[float], threads: int) -> float:
    work = sum(chunks) + CHUNK_CYCLES * len(chunks)
    if threads < 2 or len(chunks) < 2:
        return work
    of_one = -(-len(chunks) // threads) / len(chunks) * work
    return max(of_one, max(chunks)) + barrier_cycles(threads)


def chunk_cycles(kernel_steps: Sequence[KernelSteps], chunks: Sequence[Sequence[Chunk]]) -> list[list[float]]:
    """Return the estimated cycles of the chunks of each phase."""
    cycles = [[step.cost / max(step.work_items, 1) for step in steps.all] for steps in kernel_steps]
    return [
        [sum(cycles[item.group][item.step] * (item.stop - item.start) for item in chunk) for chunk in phase]
        for phase in chunks
    ]

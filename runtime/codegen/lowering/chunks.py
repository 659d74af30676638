"""Chunks: stretches of the units of a stage, as many as there is work for threads to share; no result depends on it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

from runtime.codegen.lowering.phases import Phases
from runtime.codegen.rules import Stage, Stages

LEAST_NANOSECONDS: Final = 1500.0
"""Of a chunk: taking one costs some 50."""

TINY_NANOSECONDS: Final = 300.0
"""Of stages that are one chunk together: taking each costs some 50, and more while others take theirs."""

FOR_EACH_THREAD: Final = 4
"""Chunks, so that a thread that comes late finds some left."""

Kind = TypeVar("Kind")


class Stretch(NamedTuple):
    """Units of a stage from `start` to before `stop`, numbered as the function has them; stages as `Stages.all`."""

    group: int
    stage: int
    start: int
    stop: int


Chunk = tuple[Stretch, ...]
"""Stretches that one thread does one after the other."""


def chunks_of(stages: Sequence[Stages], phases: Phases, threads: int) -> list[list[Chunk]]:
    """The chunks of every phase, in the order in which they are taken."""
    found: list[list[tuple[list[Chunk], float]]] = [[] for _ in range(phases.count)]
    chain_of = {i: chain for chain in phases.chains for i in chain}
    for i, staged in enumerate(stages):
        for j, stage in enumerate(staged.stages):
            chain = chain_of.get(i, [i]) if j == 0 else [i]
            if len(chain) == 1:
                number = len(staged.prepacked) + j
                chunks: list[Chunk] = [(Stretch(i, number, *units),) for units in stretches(stage, threads)]
                found[phases.first[i] + j].append((chunks, stage.cost))
            elif i == chain[0]:
                cost = sum(stages[link].stages[0].cost for link in chain)
                found[phases.first[i]].append((strips(stages, chain, threads), cost))
    return [in_order(_tiny_together(phase)) for phase in found]


def _tiny_together(stages: Sequence[tuple[list[Chunk], float]]) -> list[tuple[list[Chunk], float]]:
    """What has one chunk that takes next to no time is one chunk all together."""
    tiny = [(chunks[0], cost) for chunks, cost in stages if len(chunks) == 1 and cost < TINY_NANOSECONDS]
    others = [(chunks, cost) for chunks, cost in stages if len(chunks) > 1 or cost >= TINY_NANOSECONDS]
    together = tuple(stretch for chunk, _ in tiny for stretch in chunk)
    return [*others, ([together], sum(cost for _, cost in tiny))] if tiny else others


def strips(stages: Sequence[Stages], chain: Sequence[int], threads: int) -> list[Chunk]:
    """A chain of groups as a chunk for each thread: its share of the units of each."""
    first = {i: stages[i].stages[0] for i in chain}
    return [
        tuple(
            Stretch(
                i,
                len(stages[i].prepacked),
                stage.first + stage.units * n // threads,
                stage.first + stage.units * (n + 1) // threads,
            )
            for i, stage in first.items()
        )
        for n in range(threads)
    ]


def stretches(stage: Stage, threads: int) -> list[tuple[int, int]]:
    """The units of a stage cut into chunks of nearly the same size."""
    cost = min(stage.cost, threads * LEAST_NANOSECONDS) if stage.goes_on else stage.cost
    return [(stage.first + start, stage.first + stop) for start, stop in cut(stage.units, cost, threads)]


def in_order(stages: Sequence[tuple[list[Kind], float]]) -> list[Kind]:
    """The chunks of a phase, whose stages take so many nanoseconds: in the order in which they are taken.

    Half of the threads take them from the start, half from the end, so the first halves of all stages come first and
    the second halves last: in every phase a thread gets the same part of each. What cannot be shared is in the middle,
    for whoever is done, unless it takes so long that others have to wait for it.
    """
    long = sum(cost for _, cost in stages) / 4
    placed: list[tuple[float, Kind]] = []
    for chunks, cost in stages:
        if len(chunks) == 1:
            placed.append((0.0 if cost > long else 0.5, chunks[0]))
        else:
            placed += [((i + 0.5) / len(chunks), chunk) for i, chunk in enumerate(chunks)]
    return [chunk for _, chunk in sorted(placed, key=lambda pair: pair[0])]


def cut(units: int, cost: float, threads: int) -> list[tuple[int, int]]:
    """So many units, which take so many nanoseconds all together, as chunks."""
    count = min(units, threads * FOR_EACH_THREAD, round(cost / LEAST_NANOSECONDS)) if threads > 1 else 1
    count -= count % threads if count > threads else 0  # the same for each
    return list(pairwise(units * i // max(count, 1) for i in range(max(count, 1) + 1)))

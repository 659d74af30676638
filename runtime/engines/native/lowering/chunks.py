"""Chunks: stretches of the units of a stage, as many as there is work for threads to share; no result depends on it."""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

from runtime.engines.native.forms import Stage

LEAST_NANOSECONDS: Final = 2500.0
"""Of a chunk: taking one costs some 50."""

FOR_EACH_THREAD: Final = 4
"""Chunks, so that a thread that comes late finds some left."""


class Stretch(NamedTuple):
    """Units of a stage from `start` to before `stop`, numbered as the function has them."""

    group: int
    stage: int
    start: int
    stop: int


def stretches(stage: Stage, threads: int) -> list[tuple[int, int]]:
    """The units of a stage cut into chunks of nearly the same size."""
    return [(stage.first + start, stage.first + stop) for start, stop in cut(stage.units, stage.cost, threads)]


def cut(units: int, cost: float, threads: int) -> list[tuple[int, int]]:
    """So many units, which take so many nanoseconds all together, as chunks."""
    count = min(units, threads * FOR_EACH_THREAD, int(cost / LEAST_NANOSECONDS)) if threads > 1 else 1
    count -= count % threads if count > threads else 0  # the same for each
    return list(pairwise(units * i // max(count, 1) for i in range(max(count, 1) + 1)))

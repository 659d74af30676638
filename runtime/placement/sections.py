"""Sections of time, and parts of a placement that do not touch.

A section is an interval of time that begins with births and ends with deaths. All buffers that are alive anywhere in it
are alive together at its last birth. So a lifetime is a range of sections, and no information is lost. Where no buffer
crosses from one section to the next, the parts on both sides are placed separately (Moffitt, "MiniMalloc", 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple


class Item(NamedTuple):
    """A buffer of `size` bytes that is alive in the sections [first, last)."""

    first: int
    last: int
    size: int


@dataclass(frozen=True)
class Part:
    """Items in the sections 0 to `sections`, and the buffers that they stand for."""

    items: list[Item]
    buffers: list[int]
    sections: int

    @cached_property
    def load(self) -> list[int]:
        """The bytes alive in each section."""
        change = [0] * (self.sections + 1)
        for first, last, size in self.items:
            change[first] += size
            change[last] -= size
        total = 0
        return [total := total + step for step in change[:-1]]

    @cached_property
    def lower_bound(self) -> int:
        """The bytes of the busiest section: no arena can be smaller."""
        return max(self.load, default=0)


def parts_of(spans: Sequence[tuple[int, int, int]]) -> list[Part]:
    """Return the independent parts of buffers (start, stop, size), the most loaded first.

    Buffers without bytes or without a life are in no part.
    """
    real = [i for i, (start, stop, size) in enumerate(spans) if size > 0 and start < stop]
    first, last = _sections({spans[i][0] for i in real}, {spans[i][1] for i in real})
    crossed_until, groups = 0, list[list[int]]()
    for i in sorted(real, key=lambda i: (first[spans[i][0]], i)):
        if first[spans[i][0]] >= crossed_until:
            groups.append([])
        groups[-1].append(i)
        crossed_until = max(crossed_until, last[spans[i][1]])
    result: list[Part] = []
    for group in groups:
        origin = first[spans[group[0]][0]]
        items = [Item(first[spans[i][0]] - origin, last[spans[i][1]] - origin, spans[i][2]) for i in group]
        result.append(Part(items, group, max(item.last for item in items)))
    return sorted(result, key=lambda part: -part.lower_bound)


def _sections(starts: set[int], stops: set[int]) -> tuple[dict[int, int], dict[int, int]]:
    """Return the first section of each start, and the section after the last of each stop."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    count, dying = 0, True
    for tick in sorted(starts | stops):
        if tick in stops:
            last[tick], dying = count, True
        if tick in starts:
            count, dying = count + dying, False
            first[tick] = count - 1
    return first, last

"""Offsets of buffers by two algorithms: skylines, and an exact search for what they leave too high.

1. Sizes are rounded up to the alignment and counted in their greatest common divisor. Time is partitioned into
   sections, and the buffers into parts that never touch (`sections`). The bytes of the busiest section are the lower
   bound.
2. Each part, the most loaded first, is placed along a skyline by one ranking after the other (`skyline`, `rankings`).
   The first placement no higher than the bound, or than another part, is accepted. Where there are too many buffers to
   search, a placement that is nearly as low is accepted too.
3. A part that stays higher, and has few buffers, is given to the exact search (`attempts`, `search`): at the bound
   first, then half-way between the heights that were found and those that were not.
4. A part of more buffers is made a small problem: both algorithms place the buffers of its peak, and the others go
   into the gaps around them (`peak`, `gaps`). That comes before the skylines: it takes less time than all of them, and
   mostly reaches the bound. If it misses, and the first skyline too, further peaks get windows of their own.

Every budget counts work, so a placement is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from math import gcd
from typing import Final, NamedTuple

from runtime.placement.alignment import ALIGNMENT, aligned
from runtime.placement.buffer import Buffer
from runtime.placement.gaps import first_fit
from runtime.placement.rankings import RANKINGS, ranking_of
from runtime.placement.sections import Part, parts_of
from runtime.placement.skyline import lowest_offsets

PAIRS_PER_VISIT: Final = 400
"""Pairs of buffers that are compared in the time of a visit, when all but a window of the peak goes into gaps."""

MAX_ROUNDS: Final = 16
"""Upper bound on the rounds from the peaks of a part, each of which places all of its buffers."""

MOST_FOR_SEARCH: Final = 2_500
"""Upper bound on the buffers of a part that is searched; a state takes time in proportion to their sections."""


@dataclass(frozen=True)
class Effort:
    """The work that a placement may take, the same on every machine.

    Attributes:
        steps: steps of the skyline for each buffer.
        visits: visits of the exact search, each to one section of one state; about a million take a second. An eighth
            more are for each window of a peak.
        near: for parts with too many buffers for the search, the accepted excess over the bound in millionths.
    """

    steps: int
    visits: int
    near: int = 0


QUICK: Final = Effort(steps=5, visits=20_000, near=500)
"""The effort when a program is loaded: milliseconds for small programs."""
THOROUGH: Final = Effort(steps=5, visits=4_000_000, near=500)
"""The effort when a program is compiled: seconds at most where the skylines miss the bound."""


@dataclass(frozen=True)
class Placement:
    """Offsets, and their quality.

    Attributes:
        offsets: offset of each buffer in bytes.
        arena_bytes: the end of the highest buffer.
        lower_bound: the bytes of the busiest moment, each buffer rounded up to the alignment.
        optimal: True if no placement has a smaller arena; the search may prove that above the lower bound.
        method: the algorithm that placed the highest part.
    """

    offsets: list[int]
    arena_bytes: int
    lower_bound: int
    optimal: bool
    method: str


class _Placed(NamedTuple):
    height: int
    offsets: list[int]
    method: str


def place(buffers: Sequence[Buffer], effort: Effort = QUICK, *, alignment: int = ALIGNMENT) -> Placement:
    """Return an offset for each buffer; buffers that are alive together never overlap.

    The result is a pure function of the arguments, including the order of the buffers.

    Args:
        buffers: the roots of alias classes; those without bytes or without a life get offset 0.
        effort: QUICK, THOROUGH or another.
        alignment: alignment of every offset in bytes.
    """
    sizes = [aligned(buffer.nbytes, alignment) for buffer in buffers]
    unit = gcd(*sizes) or 1
    parts = parts_of([(b.start, b.stop, size // unit) for b, size in zip(buffers, sizes, strict=True)])
    bound = max((part.lower_bound for part in parts), default=0)
    offsets = [0] * len(buffers)
    highest, proven = _Placed(0, [], "nothing to place"), bound
    for part in parts:
        found, impossible_below = _place_part(part, max(bound, highest.height), effort)
        proven = max(proven, impossible_below)
        for i, offset in zip(part.buffers, found.offsets, strict=True):
            offsets[i] = offset * unit
        highest = max(highest, found, key=lambda placed: placed.height)
    return Placement(offsets, highest.height * unit, bound * unit, highest.height <= proven, highest.method)


def _place_part(part: Part, goal: int, effort: Effort) -> tuple[_Placed, int]:
    """Return the best placement that was found, and the height below which it is proven that there is none."""
    ways = _skylines(part, effort.steps * len(part.items) + 20_000)
    if len(part.items) > MOST_FOR_SEARCH:
        return _place_many(part, ways, goal, effort), 0
    return _search(part, _best(ways, goal), goal, effort.visits)


def _place_many(part: Part, ways: Iterator[_Placed], goal: int, effort: Effort) -> _Placed:
    """Place from one peak, which is fast, then by the first skyline, then from several peaks, then by all skylines."""
    rounds = _from_peaks(part, goal, effort)
    from_peak = list(islice(rounds, 1))
    if from_peak and from_peak[0].height <= goal:
        return from_peak[0]
    return _best(chain(islice(ways, 1), from_peak, rounds, ways), goal + goal * effort.near // 1_000_000)


def _best(ways: Iterable[_Placed], enough: int) -> _Placed:
    """Return the lowest placement up to the first that is low enough."""
    best = None
    for placed in ways:
        best = placed if best is None or placed.height < best.height else best
        if best.height <= enough:
            break
    assert best is not None, "the last of the ways places every part"
    return best


def _skylines(part: Part, steps: int) -> Iterator[_Placed]:
    """Yield the placement of each ranking until the steps are used up; first fit places a part that none can."""
    found = False
    for by in RANKINGS:
        offsets, used = lowest_offsets(part, ranking_of(part, by), steps)
        steps -= used
        if offsets is not None:
            yield _placed(part, offsets, f"skyline by {' and '.join(by)}")
            found = True
    if not found:
        yield _placed(part, first_fit(part, ranking_of(part, ("size", "life"))), "first fit by size")


def _from_peaks(part: Part, goal: int, effort: Effort) -> Iterator[_Placed]:
    """Yield a placement for each round, as many as the visits allow; each window may take an eighth of the visits."""
    cost = 4 * (len(part.items) ** 2 // PAIRS_PER_VISIT)
    if cost > effort.visits:
        return
    from runtime.placement.peak import MOST_IN_WINDOW, rounds_from_peaks  # at a use: loading a program needs no window

    for_window = Effort(effort.steps, effort.visits // 8)

    def place_window(core: Part, height: int) -> list[int]:
        return _place_part(core, height, for_window)[0].offsets

    rounds = min(MAX_ROUNDS, effort.visits // max(cost, 1))
    for offsets in rounds_from_peaks(part, goal, place_window, MOST_IN_WINDOW, rounds):
        yield _placed(part, offsets, "peak first")


def _search(part: Part, best: _Placed, goal: int, visits: int) -> tuple[_Placed, int]:
    """Search at the goal, with half of the visits, and then at each height half-way, with a quarter of the rest."""
    from runtime.placement.attempts import attempt  # at a use: loading a program mostly needs no search
    from runtime.placement.search import Outcome

    impossible_below, height, share = 0, goal, visits // 2
    low = goal
    while height < best.height and visits > part.sections:
        tried = attempt(part, height, share)
        visits -= tried.visits
        if tried.outcome is Outcome.FOUND:
            best = _placed(part, tried.offsets, "search")
        elif tried.outcome is Outcome.IMPOSSIBLE:
            impossible_below = height + 1
        low = height if tried.outcome is not Outcome.FOUND else low
        if best.height <= low + 1:
            break
        height, share = (low + best.height) // 2, visits // 4
    return best, impossible_below


def _placed(part: Part, offsets: list[int], method: str) -> _Placed:
    height = max(offset + item.size for offset, item in zip(offsets, part.items, strict=True))
    return _Placed(height, offsets, method)

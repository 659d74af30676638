"""Offsets of buffers: several algorithms place them, until one reaches the lower bound.

1. Sizes are rounded up to the alignment and counted in their greatest common divisor. Time is partitioned into
   sections, and the buffers into parts that never touch (`sections`). The bytes of the busiest section are the lower
   bound.
2. Each part, the most loaded first, is placed along a skyline by one ranking after the other (`skyline`, `rankings`);
   a part of few buffers also into gaps (`gaps`). The first placement no higher than the bound, or than another part,
   is accepted. Where there are too many buffers to search, a placement that is nearly as low is accepted too.
3. A part that stays higher is placed from its peak outwards (`peak`). Where there are too many buffers to search, that
   comes first: it takes less time than all the skylines, and mostly reaches the bound. If it misses, and the first
   skyline too, further peaks get windows of their own.
4. A part that is still higher, and has few buffers, is given to the exact search (`attempts`, `search`): at the bound
   first, then half-way between the heights that were found and those that were not.
5. A part that is still higher is lowered step by step (`ejection`), for as long as there are moves. Where the search
   applies too, the two alternate, each time with twice the work.

Every budget counts work. Only `seconds` looks at a clock, and the result says so if the clock ended it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from math import gcd
from time import monotonic
from typing import Final, NamedTuple

from runtime.placement.alignment import ALIGNMENT, aligned
from runtime.placement.buffer import Buffer
from runtime.placement.gaps import birth_order, first_fit
from runtime.placement.rankings import RANKINGS, ranking_of
from runtime.placement.sections import Part, parts_of
from runtime.placement.skyline import lowest_offsets

MOST_FOR_GAPS: Final = 2_000
"""Upper bound on the buffers of a part that is placed into gaps, which takes quadratic time."""

PAIRS_PER_VISIT: Final = 400
"""Pairs of buffers that are compared in the time of a visit, when all but a window of the peak goes into gaps."""

MAX_ROUNDS: Final = 16
"""Upper bound on the rounds from the peaks of a part, each of which places all of its buffers."""

MOST_FOR_SEARCH: Final = 2_500
"""Upper bound on the buffers of a part that is searched; a state takes time in proportion to their sections."""

VISITS_PER_TURN: Final = 4_000_000
MOVES_PER_TURN: Final = 50_000
"""Number of moves in the first turn of search and moves; both take some seconds."""


@dataclass(frozen=True)
class Effort:
    """The work that a placement may take, the same on every machine.

    Attributes:
        steps: steps of the skyline for each buffer.
        visits: visits of the exact search, each to one section of one state; about a million take a second. An eighth
            more are for each window of a peak; without visits, no part is placed from its peak.
        moves: moves of single buffers, to lower parts above the bound at the end; about ten thousand take a second.
        near: for parts with too many buffers for the search, the accepted excess over the bound in millionths.
    """

    steps: int
    visits: int
    moves: int = 0
    near: int = 0


QUICK: Final = Effort(steps=5, visits=0, near=500)
"""The effort when a program is loaded: milliseconds for small programs."""
THOROUGH: Final = Effort(steps=5, visits=4_000_000, moves=5_000, near=500)
"""The effort when a program is compiled: seconds at most where the quick algorithms miss the bound."""
EXHAUSTIVE: Final = Effort(steps=10, visits=60_000_000, moves=1_000_000)
"""The effort when a user asks for the best placement: minutes."""


@dataclass(frozen=True)
class Placement:
    """Offsets, and their quality.

    Attributes:
        offsets: offset of each buffer in bytes.
        arena_bytes: the end of the highest buffer.
        lower_bound: the bytes of the busiest moment, each buffer rounded up to the alignment.
        optimal: True if no placement has a smaller arena; the search may prove that above the lower bound.
        method: the algorithm that placed the highest part.
        stopped: True if the limit of seconds ended it, so that another machine may find another placement.
    """

    offsets: list[int]
    arena_bytes: int
    lower_bound: int
    optimal: bool
    method: str
    stopped: bool


class _Placed(NamedTuple):
    height: int
    offsets: list[int]
    method: str


def place(
    buffers: Sequence[Buffer],
    effort: Effort = QUICK,
    *,
    alignment: int = ALIGNMENT,
    capacity: int = 0,
    seconds: float | None = None,
) -> Placement:
    """Return an offset for each buffer; buffers that are alive together never overlap.

    The result is a pure function of the arguments, including the order of the buffers, unless `seconds` ends it.

    Args:
        buffers: the roots of alias classes; those without bytes or without a life get offset 0.
        effort: QUICK, THOROUGH, EXHAUSTIVE or another.
        alignment: alignment of every offset in bytes.
        capacity: an arena size in bytes that is good enough, even if a smaller one may exist.
        seconds: time limit, after which the best placement so far is kept; checked between the algorithms of a part.
    """
    sizes = [aligned(buffer.nbytes, alignment) for buffer in buffers]
    unit = gcd(*sizes) or 1
    parts = parts_of([(b.start, b.stop, size // unit) for b, size in zip(buffers, sizes, strict=True)])
    bound = max((part.lower_bound for part in parts), default=0)
    clock = _Clock(seconds)
    offsets = [0] * len(buffers)
    highest, proven = _Placed(0, [], "nothing to place"), bound
    for part in parts:
        found, impossible_below = _place_part(part, max(bound, highest.height, capacity // unit), effort, clock.is_over)
        proven = max(proven, impossible_below)
        for i, offset in zip(part.buffers, found.offsets, strict=True):
            offsets[i] = offset * unit
        highest = max(highest, found, key=lambda placed: placed.height)
    optimal = highest.height <= proven
    return Placement(offsets, highest.height * unit, bound * unit, optimal, highest.method, clock.struck)


def _place_part(part: Part, goal: int, effort: Effort, is_over: Callable[[], bool]) -> tuple[_Placed, int]:
    """Return the best placement that was found, and the height below which it is proven that there is none."""
    ways = _ways(part, effort.steps * len(part.items) + 20_000, is_over)
    if len(part.items) > MOST_FOR_SEARCH:
        best = _place_many(part, ways, goal, effort, is_over)
        return _improve(part, best, goal, replace(effort, visits=0), is_over)
    best = _best(chain(ways, islice(_from_peaks(part, goal, effort, is_over), 1)), goal, is_over)
    return _improve(part, best, goal, effort, is_over)


def _place_many(part: Part, ways: Iterator[_Placed], goal: int, effort: Effort, is_over: Callable[[], bool]) -> _Placed:
    """Place from one peak, which is fast, then by the first skyline, then from several peaks, then by all skylines."""
    rounds = _from_peaks(part, goal, effort, is_over)
    from_peak = list(islice(rounds, 1))
    if from_peak and (from_peak[0].height <= goal or is_over()):
        return from_peak[0]
    return _best(chain(islice(ways, 1), from_peak, rounds, ways), _near(goal, effort), is_over)


def _best(ways: Iterable[_Placed], enough: int, is_over: Callable[[], bool]) -> _Placed:
    """Return the lowest placement up to the first that is low enough."""
    best = None
    for placed in ways:
        best = placed if best is None or placed.height < best.height else best
        if best.height <= enough or is_over():
            break
    assert best is not None, "the last of the ways places every part"
    return best


def _ways(part: Part, steps: int, is_over: Callable[[], bool]) -> Iterator[_Placed]:
    """Yield the placement of each algorithm; the clock may stop one after another has placed the part."""
    found = False
    for by in RANKINGS:
        offsets, used = lowest_offsets(part, ranking_of(part, by), steps, is_over if found else lambda: False)
        steps -= used
        if offsets is not None:
            yield _placed(part, offsets, f"skyline by {' and '.join(by)}")
            found = True
    if found and len(part.items) > MOST_FOR_GAPS:
        return
    yield _placed(part, first_fit(part, ranking_of(part, ("size", "life"))), "first fit by size")
    if len(part.items) <= MOST_FOR_GAPS:
        yield _placed(part, first_fit(part, ranking_of(part, ("area", "life"))), "first fit by area")
        yield _placed(part, first_fit(part, ranking_of(part, ("life", "size")), smallest=True), "best fit by life")
        yield _placed(part, first_fit(part, birth_order(part), smallest=True), "best fit by birth")


def _from_peaks(part: Part, goal: int, effort: Effort, is_over: Callable[[], bool]) -> Iterator[_Placed]:
    """Yield a placement for each round, as many as the visits allow; each window may take an eighth of the visits."""
    cost = 4 * (len(part.items) ** 2 // PAIRS_PER_VISIT)
    if cost > effort.visits or not effort.visits:
        return
    from runtime.placement.peak import MOST_IN_WINDOW, rounds_from_peaks  # at a use: loading a program needs no window

    for_window = Effort(effort.steps, effort.visits // 8)

    def place_window(core: Part, height: int) -> list[int]:
        return _place_part(core, height, for_window, is_over)[0].offsets

    rounds = min(MAX_ROUNDS, effort.visits // max(cost, 1))
    for offsets in rounds_from_peaks(part, goal, place_window, MOST_IN_WINDOW, rounds):
        yield _placed(part, offsets, "peak first")


def _improve(part: Part, best: _Placed, goal: int, effort: Effort, is_over: Callable[[], bool]) -> tuple[_Placed, int]:
    """Alternate search and moves, each time with twice the work, as long as both have some left."""
    near = _near(goal, effort) if len(part.items) > MOST_FOR_SEARCH else goal
    impossible_below, visits, moves, turn = 0, effort.visits, effort.moves, 1
    while (visits or moves) and best.height > max(near, impossible_below) and not is_over():
        share = min(visits, turn * VISITS_PER_TURN)
        if share:
            best, proven = _search(part, best, goal, share, is_over)
            impossible_below = max(impossible_below, proven)
        visits -= share
        share = min(moves, turn * MOVES_PER_TURN) if visits else moves
        if share and best.height > max(near, impossible_below) and not is_over():
            best = _lower(part, best, goal, share, is_over)
        moves -= share
        turn *= 2
    return best, impossible_below


def _near(goal: int, effort: Effort) -> int:
    return goal + goal * effort.near // 1_000_000


def _lower(part: Part, best: _Placed, goal: int, moves: int, is_over: Callable[[], bool]) -> _Placed:
    from runtime.placement.ejection import lowered  # at a use: loading a program makes no moves

    found = _placed(part, lowered(part, best.offsets, goal, moves, is_over)[0], "ejection")
    return found if found.height < best.height else best


def _search(part: Part, best: _Placed, goal: int, visits: int, is_over: Callable[[], bool]) -> tuple[_Placed, int]:
    """Search with half of the visits at the goal, and then a quarter of the rest at each height half-way."""
    from runtime.placement.attempts import attempt  # at a use: loading a program needs no search
    from runtime.placement.search import Outcome

    impossible_below, height, share = 0, goal, visits // 2
    low = goal
    while height < best.height and visits > part.sections and not is_over():
        tried = attempt(part, height, share, is_over)
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


class _Clock:
    """A clock that tells if the time is over, and remembers if anybody was told so."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else monotonic() + seconds
        self.struck = False

    def is_over(self) -> bool:
        self.struck = self.struck or (self._end is not None and monotonic() > self._end)
        return self.struck

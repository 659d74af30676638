"""The clock of a step, for every engine: units run in phases, from 0, and values live from phase to phase.

The units of a phase run in any order, at once too; those of the next phase wait for them. So all that a phase reads or
writes is alive together, and a unit writes over its own operands only where the law of writing over says so. An engine
whose ops run one after another gives each of them a phase. Rows are fed at FED, before the first phase, and fetches and
updates read at END, after the last one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import inf
from typing import Final, NamedTuple

FED: Final = -1
"""The phase in which rows are fed, before the first phase of units."""

END: Final = inf
"""The phase of the end of a step, which fetches and updates read."""


class Unit(NamedTuple):
    """Ops that an engine computes together.

    Attributes:
        reads: the values that it reads; a view is the value that it shows.
        writes: the values that it writes.
        first: the phase in which it begins.
        last: the phase in which it ends.
        over: the pairs (new, old) of which its code may write one over the other.
    """

    reads: Collection[str]
    writes: Sequence[str]
    first: int
    last: int
    over: Sequence[tuple[str, str]] = ()


class Uses:
    """When the units of a step, and its end, read or write each value.

    Attributes:
        last: by value, the last phase in which it is used; END if the end of the step reads it.
    """

    def __init__(self, units: Sequence[Unit], ends: Collection[str]) -> None:
        self.last: dict[str, float] = {}
        self._user: dict[str, int] = {}  # by value, a unit that uses it last
        self._others: dict[str, float] = {}  # by value, the last phase in which another unit uses it
        last, user, others = self.last, self._user, self._others
        for i, unit in enumerate(units):
            phase = unit.last
            for names in (unit.writes, unit.reads):
                for name in names:
                    known = last.get(name, -1)
                    if phase < known:
                        others[name] = max(phase, others.get(name, -1))
                    elif user.get(name) != i:
                        last[name], user[name], others[name] = phase, i, known
        for name in ends:
            last[name], user[name] = END, -1

    def are_over(self, value: str, i: int, first: int) -> bool:
        """Return True if all uses of a value but those of unit `i` have ended before a phase."""
        return (self._others if self._user.get(value) == i else self.last).get(value, -1) < first


class Lifetime(NamedTuple):
    """The half-open interval [start, stop) of phases in which memory is needed."""

    start: int
    stop: int


UNREAD_FEED: Final = Lifetime(FED, FED + 1)
"""The lifetime of a fed value that nothing reads."""


def lifetimes_of(units: Sequence[Unit], uses: Uses, first_in: Mapping[str, str]) -> dict[str, Lifetime]:
    """Return the lifetimes of the values of a step: from the phase that begins to write one to that of its last use.

    Values that share memory have one lifetime, which stands under the first of them. Values that the end of the step
    reads live past the last phase.

    Args:
        units: the units of the step; a value that none of them writes is fed.
        uses: the uses of their values.
        first_in: by value that shares the memory of others, the first value in that memory.
    """
    begins = {name: unit.first for unit in units for name in unit.writes}
    end = 1 + max((unit.last for unit in units), default=-1)
    stops: dict[str, int] = {}
    for name, last in uses.last.items():
        first = first_in.get(name, name)
        stops[first] = max(stops.get(first, 0), int(min(last, end)) + 1)
    return {name: Lifetime(begins.get(name, FED), stop) for name, stop in stops.items()}

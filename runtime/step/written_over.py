"""The law of writing over: which values of a step are written into the memory of others, on every engine.

An engine computes a step unit by unit: the reference engine an op, compiled code a group of ops. It says which pairs of
values the code of a unit allows, a new one and an old one. Of these pairs the law takes those that keep every value:

1. All other units that read or write the old value have ended in phases before the unit begins, and the end of the step
   does not read it.
2. In the memory of a state that gets a new value elsewhere, only values are written that die before the end of the
   step.
3. No value is in two pairs of a unit. A state is preferred over a value in the arena, because that takes no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

END: Final = inf
"""The phase of the end of a step, which fetches and updates read."""

NO_STATES: Final = MappingProxyType[str, str]({})
T = TypeVar("T", int, str)


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

    def __init__(self, units: Sequence[Unit], ends: Collection[str] = ()) -> None:
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


def written_over(units: Sequence[Unit], uses: Uses, becomes: Mapping[str, str] = NO_STATES) -> dict[str, str]:
    """Return, by value that is written over another, the other one.

    Args:
        units: the units of the step in order; each reads only what earlier ones write.
        uses: the uses of their values.
        becomes: the new value of each state that the step updates, by its old one.
    """
    over: dict[str, str] = {}
    in_state: dict[str, str] = dict(zip(becomes, becomes, strict=True))  # by value, the state in whose memory it is
    for i, unit in enumerate(units):
        if not unit.over:
            continue
        first = unit.first

        def may(new: str, old: str, i: int = i, first: int = first) -> bool:
            if not uses.are_over(old, i, first):
                return False
            return old not in in_state or leaves_no_copy(becomes[in_state[old]] == new, uses.last.get(new) == END)

        for new, old in chosen(unit.over, in_state.__contains__, may):
            over[new] = old
            if old in in_state:
                in_state[new] = in_state[old]
    return over


def chosen(
    pairs: Sequence[tuple[T, T]], over_a_state: Callable[[T], bool], may: Callable[[T, T], bool]
) -> list[tuple[T, T]]:
    """Return the pairs (new, old) that a unit gets, in order: no value is in two.

    Args:
        pairs: pairs that the code of the unit allows.
        over_a_state: returns True if an old value lies in the memory of a state; such pairs come first.
        may: returns True if the law allows a pair where the unit is computed.
    """
    if len(pairs) == 1:
        return [*pairs] if may(*pairs[0]) else []
    taken: list[tuple[T, T]] = []
    for new, old in sorted(pairs, key=lambda pair: not over_a_state(pair[1])):
        if may(new, old) and all(new != one and old != other for one, other in taken):
            taken.append((new, old))
    return taken


def leaves_no_copy(new_value: bool, lasts: bool) -> bool:
    """Return True if a value in the memory of a state needs no copy before the state gets its new value.

    That holds if it is the new value, or if the end of the step does not read it. Otherwise it would be copied to
    memory that no plan has.
    """
    return new_value or not lasts

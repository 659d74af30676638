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

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeVar

from runtime.step.clock import END, Unit, Uses

NO_STATES: Final = MappingProxyType[str, str]({})
T = TypeVar("T", int, str)


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

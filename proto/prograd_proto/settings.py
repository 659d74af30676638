"""Settings: the scalar states whose values a run may replace, and the interval of each.

A setting is a counter whose `slot` says so: `setting`, or `setting [0.0, 1.0)` to restrict its numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import inf, isfinite
from typing import Final, NamedTuple

from prograd_proto import program_pb2 as pb

SETTING_SLOT: Final = "setting"
_WRITTEN: Final = r"setting(?: ([\[(])(\S+), (\S+)([\])]))?"


class Interval(NamedTuple):
    """Numbers from `least` to `most`; either end may be open."""

    least: float = -inf
    most: float = inf
    without_least: bool = False
    without_most: bool = False

    def has(self, number: float) -> bool:
        """Return True if a finite number is in the interval."""
        above = number > self.least if self.without_least else number >= self.least
        below = number < self.most if self.without_most else number <= self.most
        return isfinite(number) and above and below

    def within(self, other: Interval) -> Interval:
        """Return the intersection with another interval."""
        low = max((self.least, self.without_least), (other.least, other.without_least))
        high = min((self.most, not self.without_most), (other.most, not other.without_most))
        return Interval(low[0], high[0], low[1], not high[1])

    def __str__(self) -> str:
        """Return the interval in words: `from 0.0 on and below 1.0`, or `any finite number`."""
        words: list[str] = []
        if self.least != -inf:
            words.append(f"above {self.least:g}" if self.without_least else f"from {self.least:g} on")
        if self.most != inf:
            words.append(f"below {self.most:g}" if self.without_most else f"at most {self.most:g}")
        return " and ".join(words) or "any finite number"


ANY_NUMBER: Final = Interval()


def written(interval: Interval) -> str:
    """Return the text of the `slot` of a setting."""
    if interval == ANY_NUMBER:
        return SETTING_SLOT
    first, last = "(" if interval.without_least else "[", ")" if interval.without_most else "]"
    return f"{SETTING_SLOT} {first}{float(interval.least)!r}, {float(interval.most)!r}{last}"


def interval_of(state: pb.StateDesc) -> Interval:
    """Return the interval of a setting. Raise ValueError if its text is no interval."""
    found = re.fullmatch(_WRITTEN, state.slot)
    if found is None:
        raise ValueError(f"{state.slot!r} is no interval")
    first, least, most, last = found.groups()
    if first is None:
        return ANY_NUMBER
    interval = Interval(float(least), float(most), first == "(", last == ")")
    if not interval.least <= interval.most:  # nor if one is NaN
        raise ValueError(f"{state.slot!r} has no numbers")
    return interval


def is_setting(state: pb.StateDesc) -> bool:
    """Return True if a state is a setting, well formed or not."""
    return state.kind == pb.STATE_KIND_COUNTER and state.slot.partition(" ")[0] == SETTING_SLOT


def settings_among(states: Iterable[pb.StateDesc]) -> list[pb.StateDesc]:
    """Return the settings, in their order."""
    return [state for state in states if is_setting(state)]

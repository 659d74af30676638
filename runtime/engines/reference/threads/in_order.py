"""One call after the other on the caller's thread, and what every way to call the ops of a step has in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import length_hint
from typing import NamedTuple, Protocol

Call = Callable[[], object]


class Failure(NamedTuple):
    """The position of an op that raised, and what it raised."""

    position: int
    error: BaseException


class Way(Protocol):
    """A way to call the ops of a step."""

    def run(self, calls: Sequence[Call]) -> Failure | None:
        """Call every op once, and give the failure that the order of the list would have met, if any."""
        ...

    def close(self) -> None:
        """Let all threads end but the caller's, which goes on alone."""
        ...


class InOrder:
    """The way that needs no threads."""

    def run(self, calls: Sequence[Call]) -> Failure | None:
        """See `Way`."""
        return in_order(calls)

    def close(self) -> None:
        """There is nothing to end."""


def in_order(calls: Sequence[Call]) -> Failure | None:
    """Call one after the other, up to the first that fails."""
    left = iter(calls)
    try:
        for call in left:
            call()
    except Exception as error:  # an interrupt is nobody's failure
        return Failure(len(calls) - length_hint(left) - 1, error)
    return None

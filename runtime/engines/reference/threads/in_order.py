"""One call after the other on the caller's thread, and the interface of every way to call the ops of a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import length_hint
from typing import NamedTuple, Protocol

Call = Callable[[], object]


class Failure(NamedTuple):
    """The position of an op that raised, and its exception."""

    position: int
    error: BaseException


class Way(Protocol):
    """A way to call the ops of a step."""

    def run(self, calls: Sequence[Call]) -> Failure | None:
        """Call every op once, and return the failure that list order would have met, if any."""
        ...

    def close(self) -> None:
        """End all threads but the caller's, which continues alone."""
        ...


class InOrder:
    """The way without threads."""

    def run(self, calls: Sequence[Call]) -> Failure | None:
        """Call the ops in order; see `Way`."""
        return in_order(calls)

    def close(self) -> None:
        """Do nothing: there are no threads to end."""


def in_order(calls: Sequence[Call]) -> Failure | None:
    """Call one after the other, up to the first that fails."""
    left = iter(calls)
    try:
        for call in left:
            call()
    except Exception as error:  # an interrupt is no failure of an op
        return Failure(len(calls) - length_hint(left) - 1, error)
    return None

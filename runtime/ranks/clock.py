"""The seconds for which a process waits, without those in which it was itself stopped.

A job that a terminal or a batch system stops and continues as a whole has lost no process, however long it stood still.
"""

from __future__ import annotations

from time import perf_counter
from typing import Final

MAX_PAUSE_SECONDS: Final = 1.0
"""Upper bound on the seconds that count between two readings of a clock; polls are far shorter."""


class WaitingClock:
    """A clock that starts at 0 when it is made, and counts at most `MAX_PAUSE_SECONDS` between two readings."""

    def __init__(self) -> None:
        self._last, self._seconds = perf_counter(), 0.0

    def seconds(self) -> float:
        """Return the seconds of waiting until now."""
        now = perf_counter()
        self._seconds += min(now - self._last, MAX_PAUSE_SECONDS)
        self._last = now
        return self._seconds

"""A time limit for a search; the best result within it counts."""

from __future__ import annotations

from time import monotonic


class TimeLimit:
    """A limit of seconds from now on; None is no limit."""

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds
        self._end = None if seconds is None else monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """Return True if the seconds have passed."""
        return self._end is not None and monotonic() > self._end

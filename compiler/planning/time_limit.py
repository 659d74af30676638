"""A limit of seconds for a search that could go on: what has been found by then counts."""

from __future__ import annotations

from time import monotonic


class TimeLimit:
    """So many seconds from now on; None is no limit."""

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds
        self._end = None if seconds is None else monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """Whether the seconds have passed."""
        return self._end is not None and monotonic() > self._end

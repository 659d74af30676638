"""What the process takes of time and memory."""

from __future__ import annotations

import sys
from time import perf_counter

from runtime.errors import ResourceLimit


class Deadline:
    """Seconds that a run may take, from now on; None is no limit."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else perf_counter() + seconds

    def check(self) -> None:
        """Raise ResourceLimit when the time is over."""
        if self._end is not None and perf_counter() >= self._end:
            raise ResourceLimit(f"the run took its {self._seconds:g} seconds")


def peak_rss() -> int:
    """The most memory, in bytes, that the process has occupied; 0 where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024

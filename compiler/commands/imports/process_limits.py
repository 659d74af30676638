"""Limits of memory and time for the process of an import, which the system enforces.

The account of an import sees constants and nodes only; a library may take memory or time of its own.
"""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from compiler.errors import UsageError
from runtime.errors import ResourceLimit
from runtime.memory.limit import resident

AGAIN_SECONDS: Final = 0.2
"""Seconds after which the time is told again, if a library has swallowed the error."""


@contextmanager
def limited(max_memory: int | None, max_time: float | None) -> Generator[None]:
    """Let the system limit this process within the context; None for no limit.

    Raises UsageError where the system has no such limits, ResourceLimit when one is reached.
    """
    before = None if max_memory is None else _limit_memory(max_memory)
    if max_time is not None:
        _start_timer(max_time)
    try:
        yield
    except MemoryError:
        if max_memory is None:
            raise
        raise ResourceLimit(f"the import needs more than the {max_memory} bytes of --max-memory") from None
    finally:
        if max_time is not None and hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        if before is not None:
            _set_data_limit(before)


def _limit_memory(max_memory: int) -> tuple[int, int]:
    """Limit the private memory that the process may still map; return the limits before."""
    try:
        import resource
    except ImportError:  # Windows
        raise UsageError("--max-memory: this system has no limits for a process; use a container") from None
    before = resource.getrlimit(resource.RLIMIT_DATA)
    most = _data_bytes() + max(0, max_memory - resident())
    _set_data_limit((most if before[0] < 0 else min(most, before[0]), before[1]))
    return before


def _set_data_limit(limits: tuple[int, int]) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, limits)


def _data_bytes() -> int:
    """Return the bytes of private memory that the process has mapped, touched or not; see proc_pid_status(5)."""
    try:
        with open("/proc/self/status", "rb") as status:
            line = next(line for line in status if line.startswith(b"VmData:"))
    except (OSError, StopIteration):
        return resident()
    return int(line.split()[1]) << 10


def _start_timer(seconds: float) -> None:
    def tell(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise ResourceLimit(f"the import takes longer than {seconds:g} seconds; --max-time gives it more")

    if not hasattr(signal, "setitimer"):
        return  # Windows: the account of the import has the time
    signal.signal(signal.SIGALRM, tell)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_SECONDS)

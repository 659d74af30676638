"""Limits of memory and time for the process of an import, which the system enforces.

The account of an import sees constants and nodes only; a library may take memory or time of its own.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final, TypeAlias

from compiler.errors import UsageError
from runtime.errors import ResourceLimit
from runtime.memory.limit import resident

Handler: TypeAlias = Callable[[int, FrameType | None], object] | int
"""The handler of a signal: a function, or one of the defaults of the system."""

AGAIN_SECONDS: Final = 0.2
"""Seconds after which the time is told again, if a library has swallowed the error."""


@contextmanager
def limited(max_memory: int | None, max_time: float | None) -> Generator[None]:
    """Let the system limit this process within the context; None for no limit.

    Raises UsageError where the system has no such limits, ResourceLimit when one is reached.
    """
    before = None if max_memory is None else _limit_memory(max_memory)
    handler = None if max_time is None else _start_timer(max_time)
    try:
        yield
    except MemoryError:
        if max_memory is None:
            raise
        raise ResourceLimit(f"the import needs more than the {max_memory} bytes of --max-memory") from None
    finally:
        if handler is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)
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


def _start_timer(seconds: float) -> Handler | None:
    """Raise ResourceLimit after `seconds`; return the handler that the alarm had, None where there are no alarms."""

    def tell(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise ResourceLimit(f"the import takes longer than {seconds:g} seconds; --max-time gives it more")

    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        return None  # the account of the import has the time
    before = signal.signal(signal.SIGALRM, tell)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_SECONDS)
    return signal.SIG_DFL if before is None else before

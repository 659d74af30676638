"""The option --sandbox: limits that the operating system enforces for an untrusted file, whatever faults this code has.

They are set before any untrusted file is opened, and cannot be raised again. An existing lower limit stays.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Final

from runtime.errors import ResourceLimit, UsageError

DEFAULT_ADDRESS_BYTES: Final = 4 << 30
"""Bytes of address space beyond the mapped ones, unless --max-memory is lower."""

UNTOUCHED_BYTES: Final = 256 << 20
"""Bytes of address space that are mapped and hardly touched: buffers of BLAS, arenas of malloc."""

THREAD_ADDRESS_BYTES: Final = 64 << 20
"""Bytes of address space for each thread: its stack, its buffers and its arena."""

DEFAULT_THREAD_SECONDS: Final = 3600
"""Seconds of processor time for each thread, unless --max-time is lower."""

MORE_SECONDS: Final = 10
"""Seconds of processor time beyond --max-time, which ends a run by itself, and between the signal and the kill."""

MAX_OPEN_FILES: Final = 64
FILE_BYTES: Final = 4 << 30


def enter_sandbox(max_memory: int | None, max_time: float | None, threads: int) -> None:
    """Let the system limit this process from now on; raise UsageError where the system has no such limits."""
    try:
        import resource
    except ImportError:  # Windows
        raise UsageError("--sandbox: this system has no limits for a process; use a container") from None
    memory = DEFAULT_ADDRESS_BYTES if max_memory is None else min(max_memory, DEFAULT_ADDRESS_BYTES)
    seconds = threads * (
        DEFAULT_THREAD_SECONDS if max_time is None else min(int(max_time) + MORE_SECONDS, DEFAULT_THREAD_SECONDS)
    )
    limits = {
        "RLIMIT_AS": _mapped() + memory + UNTOUCHED_BYTES + threads * THREAD_ADDRESS_BYTES,
        "RLIMIT_NOFILE": MAX_OPEN_FILES,
        "RLIMIT_FSIZE": FILE_BYTES,
        "RLIMIT_CORE": 0,
    }
    signal.signal(signal.SIGXCPU, _out_of_time)
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]
    hard = _lower(seconds + MORE_SECONDS, most)
    resource.setrlimit(resource.RLIMIT_CPU, (_lower(seconds, hard), hard))
    for name, value in limits.items():
        kind = getattr(resource, name, None)
        if kind is not None:
            value = _lower(_lower(value, resource.getrlimit(kind)[0]), resource.getrlimit(kind)[1])
            resource.setrlimit(kind, (value, value))


def _lower(value: int, other: int) -> int:
    """Return the lower of two limits, where `other` may be unlimited (RLIM_INFINITY, which is -1)."""
    return value if other < 0 else min(value, other)


def _mapped() -> int:
    """Return the bytes of address space that this process has mapped; 1 GiB where the system does not report it."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 1 << 30


def _out_of_time(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise ResourceLimit("the process took all the processor time that --sandbox leaves it")

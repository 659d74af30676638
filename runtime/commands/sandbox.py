"""The option --sandbox: limits that the operating system holds, for a stranger's file, whatever is wrong here.

They are set before anything of the stranger's is opened, and cannot be raised again. A limit that is in force already
and lower stays.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Final

from runtime.errors import ResourceLimit, UsageError

MEMORY: Final = 4 << 30
"""Bytes of address space beyond what is mapped, unless --max-memory says less."""

ROOM: Final = 256 << 20
"""Bytes of address space that are mapped and hardly touched: buffers of BLAS, arenas of malloc."""

PER_THREAD: Final = 64 << 20
"""Bytes likewise for each thread: its stack, its buffers and its arena."""

SECONDS: Final = 3600
"""Of processor time for each thread, unless --max-time says less."""

MORE_SECONDS: Final = 10
"""Of processor time that --max-time leaves, which ends a run by itself; and between the signal and the end by force."""

FILES: Final = 64
FILE_BYTES: Final = 4 << 30


def enter_sandbox(max_memory: int | None, max_time: float | None, threads: int) -> None:
    """Let the system limit this process from now on. Raises UsageError where it has no such limits."""
    try:
        import resource
    except ImportError:  # Windows
        raise UsageError("--sandbox: this system has no limits for a process; use a container") from None
    memory = MEMORY if max_memory is None else min(max_memory, MEMORY)
    seconds = threads * (SECONDS if max_time is None else min(int(max_time) + MORE_SECONDS, SECONDS))
    limits = {
        "RLIMIT_AS": _mapped() + memory + ROOM + threads * PER_THREAD,
        "RLIMIT_NOFILE": FILES,
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
    """The lower of two limits, of which the other may be none (RLIM_INFINITY, which is -1)."""
    return value if other < 0 else min(value, other)


def _mapped() -> int:
    """Bytes of address space that this process has already; 1 GiB where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 1 << 30


def _out_of_time(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise ResourceLimit("the process took all the processor time that --sandbox leaves it")

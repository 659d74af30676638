"""The address space of the process, where the system limits it (`ulimit -v`, `ulimit -d`, --sandbox).

Libraries that meet the limit end the process: OpenBLAS by exit(1), LLVM by abort. So Python asks for the bytes that a
library is about to take, and gives them back at once, before it calls the library. This module imports next to nothing,
as it is used before NumPy.
"""

from __future__ import annotations

import mmap
from typing import Final

STARTUP_BYTES: Final = 136 << 20
"""Address space in bytes that NumPy, its BLAS buffer, protobuf and the runtime take beyond a bare interpreter."""

MIB: Final = 1 << 20


def is_limited() -> bool:
    """Return True if the system limits the address space or the data of this process."""
    try:
        import resource
    except ImportError:  # Windows
        return False
    names = ("RLIMIT_AS", "RLIMIT_DATA")
    kinds = [getattr(resource, name) for name in names if hasattr(resource, name)]
    return any(resource.getrlimit(kind)[0] != resource.RLIM_INFINITY for kind in kinds)


def has_room(nbytes: int) -> bool:
    """Return True if the process may map `nbytes` more bytes; without a limit it always may."""
    if not is_limited():
        return True
    try:
        mmap.mmap(-1, nbytes).close()
    except (OSError, MemoryError):
        return False
    return True


def why_not_started() -> str | None:
    """Return the reason why this process cannot import what every command needs, or None if it can."""
    if has_room(STARTUP_BYTES):
        return None
    return (
        f"there is not enough memory: the commands need {STARTUP_BYTES // MIB} MiB of address space to start; "
        "raise the limit of the system (ulimit -v, ulimit -d)"
    )

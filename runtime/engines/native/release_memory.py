"""Release of memory that compiling took and a step does not need, before the step allocates its own.

There are two kinds, on Linux: memory that LLVM freed and the C library keeps; and the pages of LLVM's own code, some 50
MiB, which the system reads from their file again if more is compiled.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from typing import Final

MADV_DONTNEED: Final = 4
"""Linux's MADV_DONTNEED: unchanged pages of a file lose nothing."""

LIBRARY: Final = "libllvmlite"


def give_back() -> None:
    """Release memory after compiling; do nothing on systems without such calls."""
    if sys.platform != "linux":
        return
    library = ctypes.CDLL(None)
    with suppress(AttributeError):  # musl has no such function
        library.malloc_trim(ctypes.c_size_t(0))
    with suppress(AttributeError, OSError):
        for start, stop in _code_of(LIBRARY):
            library.madvise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), MADV_DONTNEED)


def _code_of(name: str) -> list[tuple[int, int]]:
    """Return the address ranges of the code of a library, which is never written, unlike its data."""
    found: list[tuple[int, int]] = []
    with open("/proc/self/maps") as maps:
        for line in maps:
            addresses, kind, *_, path = line.split()
            if kind == "r-xp" and name in path.rpartition("/")[2]:
                start, stop = (int(address, 16) for address in addresses.split("-"))
                found.append((start, stop))
    return found

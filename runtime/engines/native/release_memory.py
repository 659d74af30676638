"""Memory that compiling took and a step does not need: given back before what the step needs comes on top.

Two kinds, on Linux: what LLVM freed and the C library keeps; and the pages of LLVM's own code, some 50 MiB, which lie
in a file and are read from there again if there is something else to compile.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from typing import Final

MADV_DONTNEED: Final = 4
"""What Linux calls MADV_DONTNEED: of pages of a file that nobody changed, nothing is lost."""

LIBRARY: Final = "libllvmlite"


def give_back() -> None:
    """After compiling; where the system has no words for it, nothing is done."""
    if sys.platform != "linux":
        return
    library = ctypes.CDLL(None)
    with suppress(AttributeError):  # musl has none
        library.malloc_trim(ctypes.c_size_t(0))
    with suppress(AttributeError, OSError):
        for start, stop in _code_of(LIBRARY):
            library.madvise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), MADV_DONTNEED)


def _code_of(name: str) -> list[tuple[int, int]]:
    """Where the code of a library lies in memory; it is never written, as the rest of a library may be."""
    found: list[tuple[int, int]] = []
    with open("/proc/self/maps") as maps:
        for line in maps:
            addresses, kind, *_, path = line.split()
            if kind == "r-xp" and name in path.rpartition("/")[2]:
                start, stop = (int(address, 16) for address in addresses.split("-"))
                found.append((start, stop))
    return found

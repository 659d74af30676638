"""Pages of Windows. This code has never run: no machine with Windows was available."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, Final

from runtime.engines.engine import Unavailable

READ_AND_WRITE: Final = 0x04
READ: Final = 0x02
READ_AND_EXECUTE: Final = 0x20
COMMIT_AND_RESERVE: Final = 0x3000
RELEASE: Final = 0x8000


class _Reserved:
    """Pages that are released with this object."""

    def __init__(self, size: int) -> None:
        self.address: int | None = _system().VirtualAlloc(None, size, COMMIT_AND_RESERVE, READ_AND_WRITE)

    def __del__(self) -> None:
        if self.address:
            _system().VirtualFree(self.address, 0, RELEASE)


def map_pages(size: int) -> tuple[object, int]:
    """Return new writable pages, for as long as the object lives, and the address of the first."""
    reserved = _Reserved(size)
    if not reserved.address:
        raise MemoryError(f"there are no {size} bytes of memory for code")
    return reserved, reserved.address


def allow(start: int, size: int, *, executed: bool) -> None:
    """Let pages be read, and executed if asked, and no longer be written; raises Unavailable if that is forbidden."""
    system, before = _system(), ctypes.c_ulong()
    if not system.VirtualProtect(start, size, READ_AND_EXECUTE if executed else READ, ctypes.byref(before)):
        sentence = "the native engine needs memory that can be executed, and this system forbids it"
        raise Unavailable(sentence, "no_executable_memory")
    if executed:
        system.FlushInstructionCache(system.GetCurrentProcess(), start, size)


@cache
def _system() -> Any:
    system = getattr(ctypes, "WinDLL")("kernel32")  # noqa: B009  # it is known to ctypes on Windows only
    system.VirtualAlloc.restype = system.GetCurrentProcess.restype = ctypes.c_void_p
    system.VirtualAlloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_ulong, ctypes.c_ulong]
    system.VirtualFree.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_ulong]
    system.VirtualProtect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_ulong, ctypes.c_void_p]
    system.FlushInstructionCache.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    return system

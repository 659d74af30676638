"""Pages of Linux, macOS and similar systems."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from functools import cache
from typing import Any, Final

from runtime.engines.engine import Unavailable

READ: Final = 1
EXECUTE: Final = 4


def map_pages(size: int) -> tuple[object, int]:
    """Return new writable pages, for as long as the object lives, and the address of the first."""
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE)
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


def allow(start: int, size: int, *, executed: bool) -> None:
    """Let pages be read, and executed if asked, and no longer be written; raises Unavailable if that is forbidden."""
    if _system().mprotect(start, size, READ | EXECUTE if executed else READ):
        reason = os.strerror(ctypes.get_errno())
        sentence = f"the native engine needs memory that can be executed, and this system forbids it: {reason}"
        raise Unavailable(sentence, "no_executable_memory")
    if executed and sys.platform == "darwin":  # Linux does this itself when pages become executable
        _system().sys_icache_invalidate(ctypes.c_void_p(start), ctypes.c_size_t(size))


@cache
def _system() -> Any:
    system = ctypes.CDLL(None, use_errno=True)
    system.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return system

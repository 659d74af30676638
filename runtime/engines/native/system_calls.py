"""Functions of the system that compiled code calls by their addresses: to yield a core, to sleep, to choose cores."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from typing import Final

import numpy as np

from runtime.codegen.board import MASK_BYTES
from runtime.dtypes import Array
from runtime.memory.memory_nodes import memory_nodes
from runtime.usable_cores import siblings

MASK_WORDS: Final = MASK_BYTES // 8
WORD_BITS: Final = 64


@cache
def give_way() -> int:
    """Return the address of the system's function that yields the core; it has no arguments."""
    library = ctypes.CDLL("kernel32") if sys.platform == "win32" else ctypes.CDLL(None)
    function = library.SwitchToThread if sys.platform == "win32" else library.sched_yield
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address, "every system has it"
    return address


@cache
def system_call() -> int:
    """Return the address of the function that makes system calls of Linux; 0 on other systems."""
    return _address("syscall") if sys.platform == "linux" else 0


@cache
def get_cpu() -> int:
    """Return the address of the function that returns the CPU of the calling thread; 0 on other systems than Linux."""
    return _address("sched_getcpu") if sys.platform == "linux" else 0


def other_cores() -> Array | None:
    """Return, for each CPU, a mask of those that this process may use on other cores, of its memory node if possible.

    The words of the table are the number of masks, words without meaning up to the size of a mask, and the masks. There
    is no table if the process has one core only.
    """
    if not (system_call() and get_cpu()):
        return None
    return _other_cores(frozenset(os.sched_getaffinity(0)))


@cache
def _other_cores(allowed: frozenset[int]) -> Array | None:
    count = max(allowed) + 1
    if count > MASK_BYTES * 8:
        return None
    masks = np.zeros((count + 1, MASK_WORDS), np.uint64)
    masks[0, 0] = count
    for cpu in allowed:
        core = siblings(cpu)
        near = next((node for node in memory_nodes() if cpu in node), allowed) & allowed
        others = near - core or allowed - core
        if not others:
            return None
        for other in others:
            masks[cpu + 1, other // WORD_BITS] |= np.uint64(1 << other % WORD_BITS)
    return masks.view(np.int64)


def _address(name: str) -> int:
    function = getattr(ctypes.CDLL(None), name, None)
    return (ctypes.cast(function, ctypes.c_void_p).value or 0) if function is not None else 0

"""The pages of large memory, requested from the system at once: large pages, unless those are slow to arrive.

A page of 2 MiB takes 0.1 ms, and the 512 small pages of the same size take four times that. Steps are up to 3 % faster
with large pages. On a virtual machine whose host has reclaimed free memory, each large page takes 4 ms, which doubles
the time of a first step. Where that is measured, memory begins with small pages. A training that goes on for a while
makes them large; predictions and texts, whose readers wait for each step, leave that to the system, which does a few at
a time. On other systems than Linux the system decides.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any, Final
from weakref import ReferenceType, ref

from runtime.dtypes import Array

LARGE_PAGE_BYTES: Final = 2 << 20
"""Bytes of a large page on most machines, and of the ranges that are requested at a time elsewhere."""

SLOW_SECONDS: Final = 0.5e-3
"""Time in seconds for a large page, after the first ones, from which small pages are used instead."""

LARGE_PAGES, SMALL_PAGES, TOUCHED, MADE_LARGE = 14, 15, 23, 25
"""Arguments of `madvise`: allow large pages, forbid them, populate all pages now, collapse into large ones now."""

LARGE_PAGE_SETTING: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")
"""File with the system's setting for large pages: [always], [madvise] or [never]."""

_small: list[tuple[ReferenceType[Array], int]] = []
"""Memory that began with small pages, and the address from which it has them."""

_found_slow: list[bool] = []


def touch(memory: Array) -> None:
    """Populate all pages of memory that was not touched yet, if it is large; do nothing where that is impossible."""
    start, end = _whole_pages(memory)
    if end - start < LARGE_PAGE_BYTES or not _has_large_pages():
        return
    reached = start if _found_slow else _touched_large(start, end)
    if reached < end:
        _found_slow[:] = [True]
        _advise(reached, end, SMALL_PAGES)
        _advise(reached, end, TOUCHED)
        _advise(reached, end, LARGE_PAGES)
        _small.append((ref(memory), reached))


def _touched_large(start: int, end: int) -> int:
    """Return the address up to which large pages arrived fast enough."""
    begun, allowed = perf_counter(), 2 * SLOW_SECONDS
    for page in range(start, end, LARGE_PAGE_BYTES):
        allowed += SLOW_SECONDS
        if not _advise(page, page + LARGE_PAGE_BYTES, TOUCHED):
            return end  # an older system, or one without memory: pages come when they are touched
        if perf_counter() - begun > allowed:
            return page + LARGE_PAGE_BYTES
    return end


def make_large() -> None:
    """Replace small pages of memory by large ones; this takes seconds for each GiB."""
    waiting, _small[:] = list(_small), []
    for found, reached in waiting:
        memory = found()
        if memory is not None:
            _advise(reached, _whole_pages(memory)[1], MADE_LARGE)


def begins_small() -> bool:
    """Return True if any memory has begun with small pages."""
    return bool(_small)


def _whole_pages(memory: Array) -> tuple[int, int]:
    return -(-memory.ctypes.data // LARGE_PAGE_BYTES) * LARGE_PAGE_BYTES, (
        memory.ctypes.data + memory.nbytes
    ) // LARGE_PAGE_BYTES * LARGE_PAGE_BYTES


@cache
def _has_large_pages() -> bool:
    try:
        return sys.platform == "linux" and "[never]" not in LARGE_PAGE_SETTING.read_text(encoding="ascii")
    except OSError:
        return False


def _advise(start: int, end: int, advice: int) -> bool:
    """Return True if the system accepted the advice; older systems do not know every kind."""
    return _madvise()(start, end - start, advice) == 0


@cache
def _madvise() -> Any:
    function = ctypes.CDLL(None).madvise
    function.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return function

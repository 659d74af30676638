"""The pages of large memory, taken from the system at once: large ones, unless those are slow to come.

A page of 2 MiB takes a tenth of a millisecond, and 512 small ones four times that; steps are up to 3 % faster with
large ones. On a virtual machine whose host has taken back what was free, each takes 4 milliseconds: a first step would
take twice its time. So memory begins with small pages where that is seen, and gets large ones when a run has gone on
for a while. Elsewhere than on Linux the system decides.
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

LARGE: Final = 2 << 20
"""Bytes of a large page on most machines; of the stretches that are asked for elsewhere."""

SLOW_SECONDS: Final = 0.5e-3
"""A large page that takes longer than this, after the first ones, is no bargain."""

LARGE_PAGES, SMALL_PAGES, TOUCHED, MADE_LARGE = 14, 15, 23, 25
"""What `madvise` is asked: may large pages come, may they not, have all pages now, have large ones now."""

SETTING: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")
"""What this system does about large pages: [always], [madvise] or [never]."""

_small: list[ReferenceType[Array]] = []
_found_slow: list[bool] = []


def touch(memory: Array) -> None:
    """Have all pages of memory that was not touched yet, if it is large; nothing is lost where that is not possible."""
    start, end = _whole_pages(memory)
    if end - start < LARGE or not _has_large_pages():
        return
    reached = start if _found_slow else _touched_large(start, end)
    if reached < end:
        _found_slow[:] = [True]
        _advise(reached, end, SMALL_PAGES)
        _advise(reached, end, TOUCHED)
        _small.append(ref(memory))


def _touched_large(start: int, end: int) -> int:
    """How far large pages came fast enough."""
    begun, allowed = perf_counter(), 2 * SLOW_SECONDS
    for page in range(start, end, LARGE):
        allowed += SLOW_SECONDS
        if not _advise(page, page + LARGE, TOUCHED):
            return end  # an older system, or one without memory: it goes on as it always did
        if perf_counter() - begun > allowed:
            return page + LARGE
    return end


def make_large() -> None:
    """Give memory that began with small pages large ones, a few tenths of a second for each hundred mebibytes."""
    waiting, _small[:] = list(_small), []
    for found in waiting:
        memory = found()
        if memory is not None:
            start, end = _whole_pages(memory)
            _advise(start, end, LARGE_PAGES)
            _advise(start, end, MADE_LARGE)


def begins_small() -> bool:
    """Whether any memory has."""
    return bool(_small)


def _whole_pages(memory: Array) -> tuple[int, int]:
    return -(-memory.ctypes.data // LARGE) * LARGE, (memory.ctypes.data + memory.nbytes) // LARGE * LARGE


@cache
def _has_large_pages() -> bool:
    try:
        return sys.platform == "linux" and "[never]" not in SETTING.read_text(encoding="ascii")
    except OSError:
        return False


def _advise(start: int, end: int, advice: int) -> bool:
    """Whether the system could do so; older ones do not know all of it."""
    return _madvise()(start, end - start, advice) == 0


@cache
def _madvise() -> Any:
    function = ctypes.CDLL(None).madvise
    function.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return function

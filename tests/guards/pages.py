"""Regions of memory whose buffers lie between pages that nobody may touch.

A read or write behind the end of a buffer kills the process. The rest of its first page holds a pattern, so that
`Region.require_untouched` finds a write before its begin. A region that guards begins does the opposite.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from runtime.dtypes import Array

PAGE: Final = mmap.PAGESIZE

GUARD_BYTES: Final = 16 * PAGE
"""Size of the forbidden pages between two buffers, larger than a stride of several lines."""

SLACK: Final = 0xA5
"""Each byte of a buffer's pages that is no part of the buffer."""

UNWRITTEN: Final = 0xFF
"""Each byte of a buffer before anything was written: NaN as a float, -1 as a signed number."""

LIBC: Final = ctypes.CDLL(None, use_errno=True)


class Overrun(AssertionError):
    """A byte beside a buffer was written."""


def offsets_of(sizes: Sequence[int], end: bool) -> list[int]:
    """Return where a region has buffers of these bytes: the end of each touches a forbidden page, or its begin does."""
    pages = [_whole_pages(size) for size in sizes]
    starts = _starts(pages)
    return [start + (nbytes - size) * end for start, nbytes, size in zip(starts, pages, sizes, strict=False)]


class Region:
    """Buffers in one stretch of memory, each between forbidden pages.

    Attributes:
        memory: uint8, all of it; the buffers lie at `offsets_of`.
    """

    def __init__(self, sizes: Sequence[int], end: bool) -> None:
        """Guard buffers of these bytes, which are `UNWRITTEN`."""
        pages = [_whole_pages(size) for size in sizes]
        starts = _starts(pages)
        self._map = mmap.mmap(-1, starts[-1], flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.memory: Array = np.frombuffer(self._map, np.uint8)
        self._slack: list[Array] = []
        for start, nbytes, at, size in zip(starts, pages, offsets_of(sizes, end), sizes, strict=False):
            self._forbid(start - GUARD_BYTES)
            self._slack += [self.memory[start:at], self.memory[at + size : start + nbytes]]
            self.memory[at : at + size] = UNWRITTEN
        for slack in self._slack:
            slack[...] = SLACK
        self._forbid(starts[-1] - GUARD_BYTES)

    def require_untouched(self) -> None:
        """Raise Overrun if a byte beside a buffer was written."""
        for number, slack in enumerate(self._slack):
            if not (slack == SLACK).all():
                side = "behind" if number % 2 else "before"
                raise Overrun(f"bytes {side} buffer {number // 2} of {len(self._slack) // 2} were written")

    def _forbid(self, at: int) -> None:
        address = ctypes.c_void_p(self.memory.ctypes.data + at)
        if LIBC.mprotect(address, ctypes.c_size_t(GUARD_BYTES), 0):
            raise OSError(ctypes.get_errno(), "mprotect")


def _whole_pages(nbytes: int) -> int:
    return -(-nbytes // PAGE) * PAGE


def _starts(pages: Sequence[int]) -> list[int]:
    """Return where the pages of each buffer begin, and at last the bytes of the region."""
    return list(accumulate((nbytes + GUARD_BYTES for nbytes in pages), initial=GUARD_BYTES))

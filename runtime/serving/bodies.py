"""Bodies of requests while they arrive; large bodies lie in pages of their own.

The allocator moves a growing `bytearray` of some megabytes, and keeps the memory that it leaves: six bodies that arrive
at once took five times their size.
"""

from __future__ import annotations

import sys
from mmap import mmap
from typing import Final

Bytes = bytes | bytearray | memoryview

MAX_SHARED_BYTES: Final = 1 << 16
"""Largest number of bytes of a body that shares memory with other small objects."""


class Body:
    """Bytes that are appended piece by piece, at most `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._small = bytearray()
        self._pages: mmap | None = None
        self._nbytes = 0

    def __len__(self) -> int:
        return self._nbytes

    def append(self, piece: bytes) -> None:
        """Append bytes; raise ValueError if there are more than `most`."""
        if self._pages is None and self._nbytes + len(piece) <= MAX_SHARED_BYTES:
            self._small += piece
        else:
            if self._pages is None:
                self._pages = _pages(max(self._most, self._nbytes + len(piece)))
                self._pages.write(self._small)
                self._small = bytearray()
            self._pages.write(piece)
        self._nbytes += len(piece)

    @property
    def bytes(self) -> Bytes:
        """All bytes so far; arrays may be views of them."""
        return self._small if self._pages is None else memoryview(self._pages)[: self._nbytes]


def _pages(nbytes: int) -> mmap:
    """Return memory that takes no page before it is written, and returns to the system with its last reference."""
    if sys.platform == "win32":
        return mmap(-1, nbytes)
    from mmap import MAP_ANONYMOUS, MAP_PRIVATE

    return mmap(-1, nbytes, flags=MAP_PRIVATE | MAP_ANONYMOUS)

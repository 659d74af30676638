"""Where buffers begin: multiples of a cache line in the arena, of a page in a file."""

from __future__ import annotations

from typing import Final

ALIGNMENT: Final = 64
"""Bytes; a cache line, and the widest vector of today's CPUs."""

PAGE: Final = 4096
"""Bytes; what the system reads and writes files by."""


def aligned(nbytes: int, alignment: int = ALIGNMENT) -> int:
    """`nbytes` rounded up to the alignment."""
    return -(-nbytes // alignment) * alignment

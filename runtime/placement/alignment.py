"""The alignment of buffers: a cache line in the arena, a page in a file."""

from __future__ import annotations

from typing import Final

ALIGNMENT: Final = 64
"""Alignment in bytes: a cache line, and the widest vector of today's CPUs."""

PAGE: Final = 4096
"""Page size in bytes: the unit in which the system reads and writes files."""


def aligned(nbytes: int, alignment: int = ALIGNMENT) -> int:
    """Return `nbytes` rounded up to the alignment."""
    return -(-nbytes // alignment) * alignment

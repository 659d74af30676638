"""The oracle for placements: every pair of buffers, and every phase, looked at one by one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple


class Placed(NamedTuple):
    """A buffer's bytes [offset, offset + nbytes) during [start, stop)."""

    nbytes: int
    start: int
    stop: int
    offset: int


def is_safe(placed: Sequence[Placed], arena_bytes: int) -> bool:
    """Return True if all are aligned and inside, and no two share a byte at any time."""
    inside = all(p.offset >= 0 and p.offset % 64 == 0 and p.offset + p.nbytes <= arena_bytes for p in placed)
    return inside and not any(collide(a, b) for a, b in combinations(placed, 2))


def collide(a: Placed, b: Placed) -> bool:
    bytes_meet = max(a.offset, b.offset) < min(a.offset + a.nbytes, b.offset + b.nbytes)
    times_meet = max(a.start, b.start) < min(a.stop, b.stop)
    return bytes_meet and times_meet


def most_alive(placed: Sequence[Placed]) -> int:
    """The bytes of the busiest phase, each buffer rounded up to the alignment: no arena can be smaller."""
    phases = {phase for p in placed for phase in (p.start, p.stop - 1)}
    return max((sum(rounded(p.nbytes) for p in placed if p.start <= t < p.stop) for t in phases), default=0)


def rounded(nbytes: int) -> int:
    return (nbytes + 63) // 64 * 64

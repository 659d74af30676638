"""Pseudo-random numbers that are the same on every machine and in every process."""

from __future__ import annotations

from collections.abc import Iterator


def draws() -> Iterator[int]:
    """Yield a linear congruential sequence with Knuth's constants for MMIX, its upper 31 bits."""
    state = 1
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        yield state >> 33

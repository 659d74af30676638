"""A line of elements as vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from runtime.codegen.ir import Function, Index

VECTORS_PER_ITERATION: Final = 4
"""Number of vectors that one iteration copies."""


def line(f: Function, count: int, lanes: int) -> Iterator[tuple[Index, int]]:
    """Give starts and lanes of vectors: whole ones, then halves, quarters and so on; single elements have no lanes."""
    together = count // (lanes * VECTORS_PER_ITERATION) * lanes * VECTORS_PER_ITERATION
    for i in f.range(0, together, lanes * VECTORS_PER_ITERATION):
        for part in range(VECTORS_PER_ITERATION):
            yield i + part * lanes, lanes
    start = together
    while start < count:
        lanes = min(lanes, power_below(count - start))
        yield start, lanes if lanes > 1 else 0
        start += lanes


def power_below(number: int) -> int:
    """Return the largest power of two that is not larger."""
    return 1 << (number.bit_length() - 1)

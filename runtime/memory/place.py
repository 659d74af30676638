"""Where each buffer lies: greedy by size, lowest offset that is free for its whole life.

1. Take the buffers from the largest to the smallest; among equals the longest-lived, then the first defined.
2. Among those already placed, those alive at the same time leave gaps; take the lowest that fits.

The order is Sekiyama et al., "Profile-guided memory optimization for deep neural networks" (2018), section 4,
as used by many planners since: rarely optimal, never bad for a training step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from runtime.memory.lifetimes import Buffer

ALIGNMENT: Final = 64
"""Bytes; a cache line, and the widest vector of today's CPUs."""


def place(buffers: Sequence[Buffer]) -> list[int]:
    """An offset in bytes for each buffer, a multiple of 64; buffers alive together never overlap."""
    order = sorted(range(len(buffers)), key=lambda i: _rank(buffers[i], i))
    starts, stops, offsets, ends = (np.zeros(len(buffers), np.int64) for _ in range(4))
    result = [0] * len(buffers)
    for placed, i in enumerate(order):
        buffer = buffers[i]
        alive = np.flatnonzero((starts[:placed] < buffer.stop) & (stops[:placed] > buffer.start))
        result[i] = _lowest_gap(offsets[alive], ends[alive], aligned(buffer.nbytes))
        starts[placed], stops[placed] = buffer.start, buffer.stop
        offsets[placed], ends[placed] = result[i], result[i] + aligned(buffer.nbytes)
    return result


def arena_size(buffers: Sequence[Buffer], offsets: Sequence[int]) -> int:
    """Bytes of the arena that these offsets need."""
    return max((offset + aligned(b.nbytes) for b, offset in zip(buffers, offsets, strict=True)), default=0)


def aligned(nbytes: int) -> int:
    """`nbytes` rounded up to the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _rank(buffer: Buffer, position: int) -> tuple[int, int, int]:
    return -buffer.nbytes, buffer.start - buffer.stop, position


def _lowest_gap(offsets: np.ndarray, ends: np.ndarray, nbytes: int) -> int:
    if not len(offsets):
        return 0
    order = np.argsort(offsets, kind="stable")
    tops = np.maximum.accumulate(np.concatenate(([0], ends[order])))
    fits = np.flatnonzero(offsets[order] - tops[:-1] >= nbytes)
    return int(tops[fits[0]] if len(fits) else tops[-1])

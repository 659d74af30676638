"""Places item after item into a gap that is free for its whole life: the lowest that fits, or the smallest.

By size into the lowest gap is Sekiyama et al., "Profile-guided memory optimization for deep neural networks" (2018). In
the order of birth, the longest-lived first, it is the behaviour of an allocator that sees the buffers arrive.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from runtime.placement.sections import Part


def first_fit(part: Part, ranking: Sequence[int], *, smallest: bool = False) -> list[int]:
    """Return an offset for each item, placed in the order of the ranking, with about n²/2 comparisons."""
    n = len(part.items)
    begins, ends = np.empty(n, np.int32), np.empty(n, np.int32)
    bottoms, tops = np.empty(n, np.int64), np.empty(n, np.int64)
    offsets = [0] * n
    for placed, i in enumerate(ranking):
        first, last, size = part.items[i]
        alive = ((begins[:placed] < last) & (ends[:placed] > first)).nonzero()[0]
        offsets[i] = _gap(bottoms[alive], tops[alive], size, smallest)
        begins[placed], ends[placed] = first, last
        bottoms[placed], tops[placed] = offsets[i], offsets[i] + size
    return offsets


def birth_order(part: Part) -> list[int]:
    """Return the items' indices by birth, and for equal births the longest-lived first."""
    return sorted(range(len(part.items)), key=lambda i: (part.items[i].first, -part.items[i].last, i))


def _gap(bottoms: np.ndarray, tops: np.ndarray, size: int, smallest: bool) -> int:
    if not len(bottoms):
        return 0
    order = bottoms.argsort(kind="stable")
    gap_begins = np.maximum.accumulate(np.concatenate(([0], tops[order])))
    gap_sizes = bottoms[order] - gap_begins[:-1]
    fits = (gap_sizes >= size).nonzero()[0]
    if not len(fits):
        return int(gap_begins[-1])
    return int(gap_begins[fits[gap_sizes[fits].argmin() if smallest else 0]])

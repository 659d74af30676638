"""Places item after item into the lowest gap that is free for its whole life.

In the order of sizes it is Sekiyama et al., "Profile-guided memory optimization for deep neural networks" (2018).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from runtime.placement.sections import Part


def first_fit(part: Part, ranking: Sequence[int]) -> list[int]:
    """Return an offset for each item, placed in the order of the ranking, with about n²/2 comparisons."""
    n = len(part.items)
    begins, ends = np.empty(n, np.int32), np.empty(n, np.int32)
    bottoms, tops = np.empty(n, np.int64), np.empty(n, np.int64)
    offsets = [0] * n
    for placed, i in enumerate(ranking):
        first, last, size = part.items[i]
        alive = ((begins[:placed] < last) & (ends[:placed] > first)).nonzero()[0]
        offsets[i] = _gap(bottoms[alive], tops[alive], size)
        begins[placed], ends[placed] = first, last
        bottoms[placed], tops[placed] = offsets[i], offsets[i] + size
    return offsets


def _gap(bottoms: np.ndarray, tops: np.ndarray, size: int) -> int:
    if not len(bottoms):
        return 0
    order = bottoms.argsort(kind="stable")
    gap_begins = np.maximum.accumulate(np.concatenate(([0], tops[order])))
    gap_sizes = bottoms[order] - gap_begins[:-1]
    fits = (gap_sizes >= size).nonzero()[0]
    if not len(fits):
        return int(gap_begins[-1])
    return int(gap_begins[fits[0]])

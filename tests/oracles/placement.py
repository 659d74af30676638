"""The oracle for optimal placements: every order, each buffer dropped onto what is below it.

Take any placement and let its buffers fall as far as they can; then in the order of their offsets each lies on the
highest of those before it that it meets. So one of all orders gives an optimal placement.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

Span = tuple[int, int, int]
"""start, stop, size"""


def least_height(spans: Sequence[Span]) -> int:
    """The height of an optimal placement, for a handful of buffers."""
    return min((dropped(order) for order in permutations(spans)), default=0)


def dropped(order: Sequence[Span]) -> int:
    placed: list[tuple[Span, int]] = []
    for start, stop, size in order:
        below = [top for (begin, end, _), top in placed if begin < stop and start < end]
        placed.append(((start, stop, size), max(below, default=0) + size))
    return max((top for _, top in placed), default=0)

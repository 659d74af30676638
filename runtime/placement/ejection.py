"""Lowers a placement by ejection: items that end too high move to where they fit or displace the least weight.

1. The target is a height below the placement's. Every item that ends above it is taken out, and waits.
2. A move inserts the item that has waited least, on the ground or on top of another item. It takes an offset where no
   item is in its way, or else where the items in its way weigh least. Those are taken out and wait, the heaviest to be
   inserted first.
3. The weight of an item is its area, size by life, times one plus the number of its own ejections of others. An item
   that is ejected again and again becomes heavy enough to stay. Weights are perturbed by a factor of up to two.
4. When no item waits, the target is reached, and the next one is twice as far away. If that takes too many moves, the
   placement is restored, and the next target is half as far away. When targets get very near, the limit of moves rises.

Ejection chains are due to Glover (1996). Counting how often an item was hard to insert, and ejecting items that were
not, is the ejection search of Nagata and Bräysy, "A powerful route minimization heuristic" (2009), here for bytes and
time. All numbers are integers from a fixed sequence, so the result depends only on the part, the placement and the
moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

import numpy as np

from runtime.placement.draws import draws
from runtime.placement.sections import Part

MOVES_PER_TARGET: Final = 1_000
"""Number of moves towards one target, at first."""

MEAN_WEIGHT: Final = 1 << 10
MOST_WEIGHT: Final = 1 << 24
MOST_PUSHES: Final = 1 << 17
"""Upper bound on the counted ejections of an item: sums of weights stay below 63 bits with a million items."""

NOWHERE: Final = np.iinfo(np.int32).max
"""First section of an item that waits, which meets no other item."""


def lowered(
    part: Part, offsets: Sequence[int], goal: int, moves: int, is_over: Callable[[], bool]
) -> tuple[list[int], int]:
    """Return offsets whose highest item ends no higher than before, and the number of moves.

    Args:
        part: the part to place.
        offsets: offsets of its items, without overlaps.
        goal: the height that is good enough, at least the lower bound.
        moves: upper bound on the moves; with 10,000 items one takes about 0.1 ms.
        is_over: returns True to stop with the present result; called now and then.
    """
    standing = _Standing(part, offsets)
    best, height, used = list(offsets), standing.height(), 0
    patience, step = MOVES_PER_TARGET, max(1, (height - goal) // 8)
    while height > goal and used < moves and not is_over():
        reached, made = standing.reach(max(goal, height - step), min(patience, moves - used), is_over)
        used += made
        if reached:
            best, height, step = standing.offsets.tolist(), standing.height(), step * 2
            continue
        standing.restore(best)
        step //= 2
        if step <= (height - goal) >> 6:
            step, patience = max(1, (height - goal) // 8), patience * 2
    return best, used


class _Standing:
    """Items with their offsets, as columns; some may wait to be inserted."""

    def __init__(self, part: Part, offsets: Sequence[int]) -> None:
        first, last, size = zip(*part.items, strict=True)
        self._first, self._last = np.array(first, np.int32), np.array(last, np.int32)
        self._size = np.array(size, np.int64)
        self._pushes = np.ones(len(size), np.int64)
        self._area = _weights(part)
        self._draws = draws()
        self._disturbance = np.array([n % 1024 for n in islice(self._draws, 2 * len(size) + 4096)], np.int64)
        self.restore(offsets)

    def restore(self, offsets: Sequence[int]) -> None:
        """Restore all items to these offsets."""
        self.offsets = np.array(offsets, np.int64)
        self._from = self._first.copy()

    def height(self) -> int:
        """Return the end of the highest item."""
        return int((self.offsets + self._size).max())

    def reach(self, target: int, moves: int, is_over: Callable[[], bool]) -> tuple[bool, int]:
        """Return True if no item ends above the target after at most `moves` moves, and the number of moves."""
        waiting: list[int] = np.flatnonzero(self.offsets + self._size > target).tolist()
        self._from[waiting] = NOWHERE
        made = 0
        while waiting and made < moves and not (made & 127 == 127 and is_over()):
            waiting += self._put(waiting.pop(), target)
            made += 1
        return not waiting, made

    def _put(self, i: int, target: int) -> list[int]:
        """Insert one item by rule 2; return the ejected items, from the lightest to the heaviest."""
        near = np.flatnonzero((self._from < self._last[i]) & (self._last > self._first[i]))
        size, bottoms = int(self._size[i]), self.offsets[near]
        tops = bottoms + self._size[near]
        at = self._least_in_the_way(size, bottoms, tops, self._pushes[near] * self._area[near], target)
        out = near[(bottoms < at + size) & (tops > at)]
        if len(out):
            self._pushes[i] = min(self._pushes[i] + 1, MOST_PUSHES)
            self._from[out] = NOWHERE
        self.offsets[i], self._from[i] = at, self._first[i]
        return out[np.argsort(self._area[out], kind="stable")].tolist()

    def _least_in_the_way(
        self, size: int, bottoms: np.ndarray, tops: np.ndarray, weights: np.ndarray, target: int
    ) -> int:
        """Return the offset where the covered items weigh least: the lowest one, if no item would be covered."""
        by_bottom, by_top = bottoms.argsort(), tops.argsort()  # the order of equal ones makes no difference
        bottoms, tops = bottoms[by_bottom], tops[by_top]
        offsets = np.concatenate(([0], tops[: np.searchsorted(tops, target - size, "right")]))
        begun, ended = np.searchsorted(bottoms, offsets + size), np.searchsorted(tops, offsets, "right")
        free = np.flatnonzero(begun == ended)
        if len(free):
            return int(offsets[free[0]])
        begin = next(self._draws) % 4096
        cost = _sums(weights[by_bottom])[begun] - _sums(weights[by_top])[ended]
        cost += (cost >> 10) * self._disturbance[begin : begin + len(cost)]
        return int(offsets[cost.argmin()])


def _sums(weights: np.ndarray) -> np.ndarray:
    """Return the prefix sums of the weights, from 0."""
    return np.concatenate(([0], np.cumsum(weights)))


def _weights(part: Part) -> np.ndarray:
    """Return the areas as integers about a mean of `MEAN_WEIGHT`; Python's, since products may not fit 64 bits."""
    areas = [(item.last - item.first) * item.size for item in part.items]
    mean = sum(areas) // len(areas) or 1
    return np.array([min(1 + area * MEAN_WEIGHT // mean, MOST_WEIGHT) for area in areas], np.int64)

"""Lower a placement: what ends too high is put where it fits or where least is lost, and what lay there is put anew.

1. The target is a height below the placement's. Whatever ends above it is taken out, and waits.
2. A move puts in the item that has waited least: on the ground or on another one, where nothing is in its way or else
   what is in its way weighs least. That is taken out and waits, the heaviest to be put in first.
3. An item weighs its area, size by life, times how often it had to push others out, and one: what is pushed out again
   and again becomes heavy enough to stay, and others make room. Weights are disturbed by up to their double.
4. When nobody waits, the target is reached, and the next one is twice as far away. If that takes too many moves, the
   placement is what it was, and the next target half as far away; when that is hardly a step, there are more moves.

Chains of ejections are Glover's (1996); to count how often an item was hard to put in, and to push out what was not, is
the ejection search of Nagata and Bräysy, "A powerful route minimization heuristic" (2009), here for bytes and time. All
numbers are whole and drawn by a counter, so the result depends on nothing but the part, the placement and the moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

import numpy as np

from runtime.placement.draws import draws
from runtime.placement.sections import Part

PATIENCE: Final = 1_000
"""Moves towards one target, at first."""

MEAN_WEIGHT: Final = 1 << 10
MOST_WEIGHT: Final = 1 << 24
MOST_PUSHES: Final = 1 << 17
"""So that sums of weights stay below 63 bits, with a million items."""

NOWHERE: Final = np.iinfo(np.int32).max
"""The first section of an item that waits: it meets none."""


def lowered(
    part: Part, offsets: Sequence[int], goal: int, moves: int, is_over: Callable[[], bool]
) -> tuple[list[int], int]:
    """Offsets of which the highest item ends no higher than before, and the moves that were made.

    Args:
        part: what is placed.
        offsets: of its items, none overlapping another.
        goal: the height that will do, at least the lower bound.
        moves: at most so many; with 10,000 items one takes about a ten thousandth of a second.
        is_over: asked now and then whether to stop with what there is.
    """
    standing = _Standing(part, offsets)
    best, height, used = list(offsets), standing.height(), 0
    patience, step = PATIENCE, max(1, (height - goal) // 8)
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
    """Items with their offsets, as columns; some may wait to be put in."""

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
        """Put everything where it was."""
        self.offsets = np.array(offsets, np.int64)
        self._from = self._first.copy()

    def height(self) -> int:
        """Where the highest item ends."""
        return int((self.offsets + self._size).max())

    def reach(self, target: int, moves: int, is_over: Callable[[], bool]) -> tuple[bool, int]:
        """Whether nothing ends above the target after at most so many moves, and how many were made."""
        waiting: list[int] = np.flatnonzero(self.offsets + self._size > target).tolist()
        self._from[waiting] = NOWHERE
        made = 0
        while waiting and made < moves and not (made & 127 == 127 and is_over()):
            waiting += self._put(waiting.pop(), target)
            made += 1
        return not waiting, made

    def _put(self, i: int, target: int) -> list[int]:
        """Rule 2 for one item; what had to go, from the lightest to the heaviest."""
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
        """The offset where what would be covered weighs least: the lowest, if nothing would be."""
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
    """Of the first none, one, two … of the weights."""
    return np.concatenate(([0], np.cumsum(weights)))


def _weights(part: Part) -> np.ndarray:
    """The areas as whole numbers about a mean of `MEAN_WEIGHT`; Python's, since the products may not fit 64 bits."""
    areas = [(item.last - item.first) * item.size for item in part.items]
    mean = sum(areas) // len(areas) or 1
    return np.array([min(1 + area * MEAN_WEIGHT // mean, MOST_WEIGHT) for area in areas], np.int64)

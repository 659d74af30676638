"""Places items at the lowest offset there is, without holes below: a skyline over the sections.

1. The floor of a section is the top of the items placed in it. A valley is a run of sections with one floor between
   two higher ones. Take the lowest valley.
2. Place the first item of the ranking that lives within the valley on its floor.
3. If there is none, the valley's floor rises to the lower of its two walls, and joins it.

The rule is that of Sekiyama et al., "Profile-guided memory optimization for deep neural networks" (2018), who choose
the longest-lived item. It is also the first descent of Moffitt, "MiniMalloc" (2023), with other choices. Items wait at
sections, see `_Waiting`, so that rule 2 does not visit all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Final

import numpy as np

from runtime.placement.sections import Item, Part

WALL_HEIGHT: Final = 1 << 200
"""Height of the walls on both sides of the skyline; higher than any arena."""


def lowest_offsets(part: Part, ranking: Sequence[int], steps: int) -> tuple[list[int] | None, int]:
    """Return an offset for each item, or None after `steps` steps; and the steps it took.

    A step changes the section where an item waits; there are a few for each item, more where high towers alternate.
    """
    items = [part.items[i] for i in ranking]
    skyline, waiting = _Skyline(part.sections), _Waiting(items, part)
    offsets = [0] * len(items)
    left = len(items)
    while left:
        height, begin, end = skyline.lowest_valley()
        k = _first_inside(items, waiting, skyline.floor, begin, end)
        if k is None:
            skyline.fill(begin, end)
            continue
        if waiting.steps > steps:
            return None, waiting.steps
        waiting.remove(k)
        offsets[ranking[k]] = height
        skyline.build(items[k], height, begin, end)
        left -= 1
    return offsets, waiting.steps


def _first_inside(items: list[Item], waiting: _Waiting, floor: np.ndarray, begin: int, end: int) -> int | None:
    """Return the first of the ranking that lives within the valley; items that reach out of it wait elsewhere."""
    while (k := waiting.first(begin, end)) is not None:
        first, last, _ = items[k]
        if begin <= first and last <= end:
            return k
        other = waiting.other(k)
        if begin <= other < end:
            waiting.move(k, _watch(floor, first, last))
        else:
            waiting.jump(k, other)
    return None


def _watch(floor: np.ndarray, first: int, last: int) -> int:
    """Return a section on the highest floor in the range: the roundest number of all such sections.

    Different ranges over one plateau mostly have the same roundest number, and so their items wait together.
    """
    span = floor[first:last]
    begin = int(span.argmax())
    lower = span[begin:] != span[begin]
    length = int(lower.argmax()) or len(lower)
    begin, end = first + begin, first + begin + length - 1
    if not begin:
        return 0
    bits = ((begin - 1) ^ end).bit_length() - 1
    return end >> bits << bits


class _Skyline:
    """Runs of sections with one floor, the lowest of them first."""

    def __init__(self, sections: int) -> None:
        self.floor = np.zeros(sections, np.int64)
        self._height = {-1: WALL_HEIGHT, 0: 0, sections: WALL_HEIGHT}
        self._end = {-1: 0, 0: sections, sections: sections + 1}
        self._begin_by_end = {0: -1, sections: 0}
        self._heap = [(0, 0)]

    def lowest_valley(self) -> tuple[int, int, int]:
        """Return its floor, its first section, and the one after its last."""
        while True:
            height, begin = heappop(self._heap)
            if self._height.get(begin) == height:
                return height, begin, self._end[begin]

    def fill(self, begin: int, end: int) -> None:
        """Raise the floor of a valley to the lower of its walls."""
        height = min(self._height[self._begin_by_end[begin]], self._height[end])
        del self._height[begin]
        self._add(begin, end, height)

    def build(self, item: Item, height: int, begin: int, end: int) -> None:
        """Raise the floor by an item that lives within the valley."""
        first, last, size = item
        del self._height[begin]
        if begin < first:
            self._add(begin, first, height)
        if last < end:
            self._add(last, end, height)
        self._add(first, last, height + size)

    def _add(self, begin: int, end: int, height: int) -> None:
        """Add a run, merged with its neighbours if they have the same floor."""
        self.floor[begin:end] = height
        left = self._begin_by_end.get(begin, -1)
        if self._height.get(left) == height and self._end[left] == begin:
            begin = left
        if self._height.get(end) == height:
            end_of_right = self._end[end]
            del self._height[end]
            end = end_of_right
        self._height[begin], self._end[begin], self._begin_by_end[end] = height, end, begin
        heappush(self._heap, (height, begin))


class _Waiting:
    """The sections where unplaced items wait, and the first of the ranking in any range of sections.

    Every item watches two of its sections, and waits at one of them. It cannot be placed in a valley without the other
    one. When that is found out, all items that watch the same two sections move there together. If both are in the
    valley and the item still reaches out of it, it watches a section of the highest floor instead. A tree over the
    sections has the first waiting item of each range.
    """

    def __init__(self, items: list[Item], part: Part) -> None:
        load = np.array(part.load, np.int64)
        self.steps = 0
        self._nobody = len(items)
        self._pair = [(0, 0)] * len(items)
        self._groups: dict[tuple[int, int], list[int]] = {}
        self._home: dict[tuple[int, int], int] = {}
        self._heaps: list[list[tuple[int, tuple[int, int]]]] = [[] for _ in range(part.sections)]
        for k, (first, last, _) in enumerate(items):
            section = first + int(load[first:last].argmax())
            self._pair[k] = section, section
            self._groups.setdefault((section, section), []).append(k)
            self._home[section, section] = section
        self._leaves = 1 << (part.sections - 1).bit_length()
        self._tree = [self._nobody] * (2 * self._leaves)
        for pair, group in self._groups.items():
            heapify(group)
            self._heaps[pair[0]].append((group[0], pair))
            self._tree[self._leaves + pair[0]] = group[0]
        for node in range(self._leaves - 1, 0, -1):
            self._tree[node] = min(self._tree[2 * node], self._tree[2 * node + 1])

    def first(self, begin: int, end: int) -> int | None:
        """Return the first of the ranking that waits in the sections [begin, end), or None."""
        best, tree = self._nobody, self._tree
        begin, end = begin + self._leaves, end + self._leaves
        while begin < end:
            if begin & 1:
                best = tree[begin] if tree[begin] < best else best
                begin += 1
            if end & 1:
                end -= 1
                best = tree[end] if tree[end] < best else best
            begin, end = begin >> 1, end >> 1
        return None if best == self._nobody else best

    def other(self, k: int) -> int:
        """Return the section that the item watches besides the one where it waits."""
        a, b = self._pair[k]
        return a + b - self._home[a, b]

    def jump(self, k: int, section: int) -> None:
        """Move all items that watch the same sections as this item, the first of them, to wait at `section`."""
        self.steps += 1
        pair = self._pair[k]
        left, self._home[pair] = self._home[pair], section
        heappush(self._heaps[section], (k, pair))
        self._update(left)
        self._update(section)

    def move(self, k: int, section: int) -> None:
        """Let the item watch `section` and the section where it waits; it joins the items that watch both."""
        self.steps += 1
        left = self._home[self._pair[k]]
        self.remove(k)
        pair = (left, section) if left < section else (section, left)
        self._pair[k] = pair
        group = self._groups.setdefault(pair, [])
        if not group:
            self._home[pair] = section
        heappush(group, k)
        if group[0] == k:
            heappush(self._heaps[self._home[pair]], (k, pair))
            self._update(self._home[pair])

    def remove(self, k: int) -> None:
        """Remove the item, the first of those that watch the same sections, from the waiting ones."""
        pair = self._pair[k]
        group, home = self._groups[pair], self._home[pair]
        heappop(group)
        if group:
            heappush(self._heaps[home], (group[0], pair))
        self._update(home)

    def _update(self, section: int) -> None:
        tree, node = self._tree, self._leaves + section
        tree[node] = self._first_at(section)
        while node := node >> 1:
            a, b = tree[2 * node], tree[2 * node + 1]
            first = a if a < b else b
            if tree[node] == first:
                break
            tree[node] = first

    def _first_at(self, section: int) -> int:
        """Return the first item that waits here; drop outdated entries of groups."""
        heap = self._heaps[section]
        while heap:
            k, pair = heap[0]
            group = self._groups[pair]
            if group and group[0] == k and self._home[pair] == section:
                return k
            heappop(heap)
        return self._nobody

"""Exact search for a placement below a capacity.

It follows Moffitt, "MiniMalloc: a lightweight memory allocator for hardware-accelerated machine learning" (2023), whose
offsets never decrease along a branch. Here a branch decides which item comes next above one section.

1. A state has the floor of each section, which is the top of the items placed in it. It also has the slack of each
   section, which is the capacity less the floor and all unplaced items, and the set of unplaced items.
2. Where no unplaced item can lie on the floor of a section, because all reach into sections with higher floors, the
   floor rises to the lowest of those, and the slack shrinks by as much. Without slack the state has no solution.
3. A valley is a run of sections with one floor between higher ones. Every item that covers its floor at one section
   lives within the valley. So choose a section of a valley, and branch: each item that may lie there, or none. The
   choice of none costs slack: the next item rests on an item of the valley, or on its wall.
4. Choose the section by its branches, its slack, and the number of branches that it has ended.
5. When no unplaced item crosses from one section to the next, both sides are solved separately. If one has no solution,
   the search backtracks behind the split at once.

Sets of items are the bits of integers, the first of the order lowest: two operations give the items within a valley.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from runtime.placement.sections import Item, Part


class Outcome(Enum):
    """The outcome of a search."""

    FOUND = "found"
    IMPOSSIBLE = "impossible"
    STOPPED = "stopped"


class _Region(NamedTuple):
    """A subproblem: sections [begin, end) with their unplaced items, and the number of its branch."""

    begin: int
    end: int
    unplaced: int
    floor: list[int]
    slack: list[int]
    branch: int


class _Choice(NamedTuple):
    """An item to lie on the floor at a section; negative for none: then the floor there rises to `height`."""

    item: int
    section: int
    height: int


_Open = tuple[_Region, "_Open"] | None
"""The regions that are still to be solved, as a linked list: branches share their ends."""


@dataclass
class _Branch:
    region: _Region
    choices: list[_Choice]
    rest: _Open
    final: bool = False
    """True if the choice takes nothing from other items, so that no other choice can do better."""


@dataclass
class Search:
    """One search; `run` may be called once.

    Attributes:
        part: the part to place.
        order: the items' indices, those to try first in front.
        capacity: capacity in the units of the sizes.
        nodes: upper bound on the visited states.
        blame: number of branches that each section ended, plus one; the search reads and increments it.
    """

    part: Part
    order: Sequence[int]
    capacity: int
    nodes: int
    blame: list[float]
    used: int = 0
    offsets: list[int] = field(default_factory=list[int])
    """The offset of each item after FOUND."""

    def __post_init__(self) -> None:
        sections = self.part.sections
        self._items: list[Item] = [self.part.items[i] for i in self.order]
        self._born_from = [0] * (sections + 1)
        self._dead_by = [0] * (sections + 1)
        for bit, (first, last, _) in enumerate(self._items):
            self._born_from[first] |= 1 << bit
            self._dead_by[last] |= 1 << bit
        for section in range(sections):
            self._dead_by[section + 1] |= self._dead_by[section]
            self._born_from[sections - section - 1] |= self._born_from[sections - section]
        everyone = (1 << len(self._items)) - 1
        self._alive = [everyone & ~self._born_from[s + 1] & ~self._dead_by[s] for s in range(sections)]
        self._failed: set[tuple[int, tuple[int, ...]]] = set()
        self._branches: list[_Branch] = []

    def run(self) -> Outcome:
        """Search until a placement is found, no state is left, or the nodes are used up."""
        slack = [self.capacity - load for load in self.part.load]
        if min(slack, default=0) < 0:
            return Outcome.IMPOSSIBLE
        self._placed = [0] * len(self._items)
        whole = _Region(0, self.part.sections, (1 << len(self._items)) - 1, [0] * len(slack), slack, -1)
        waiting: _Open = (whole, None)
        while waiting is not None:
            if self.used >= self.nodes:
                return Outcome.STOPPED
            self.used += 1
            region, rest = waiting
            solved, waiting = self._solve(region, rest)
            if solved:
                continue
            if waiting is None:
                return Outcome.IMPOSSIBLE
        self.offsets = [0] * len(self.order)
        for bit, i in enumerate(self.order):
            self.offsets[i] = self._placed[bit]
        return Outcome.FOUND

    def _solve(self, region: _Region, rest: _Open) -> tuple[bool, _Open]:
        """Advance one region by a step; return False for a contradiction, and the regions to be solved next."""
        if not region.unplaced:
            return True, rest
        walls = self._raise_floors(region)
        if walls is None:
            return False, self._back(region.branch)
        pieces = self._pieces(region)
        if len(pieces) > 1:
            for piece in sorted(pieces, key=lambda piece: -piece.unplaced.bit_count()):
                rest = piece, rest
            return True, rest
        if (region.unplaced, tuple(region.floor[region.begin : region.end])) in self._failed:
            return False, self._back(region.branch)
        self._branches.append(_Branch(region, self._choices(region), rest))
        return False, self._back(len(self._branches) - 1)

    def _raise_floors(self, region: _Region) -> bool | None:
        """Apply rule 2 until nothing changes; return None if there is no solution."""
        begin, end, unplaced, floor, slack, _ = region
        capacity = self.capacity
        alive, born_from, dead_by = self._alive, self._born_from, self._dead_by
        changed = True
        while changed:
            changed = False
            left, right = _higher(floor, begin, end)
            for section in range(begin, end):
                height = floor[section]
                if height >= capacity:
                    continue
                lower, upper = left[section - begin], right[section - begin]
                if unplaced & alive[section] & born_from[lower + 1] & dead_by[upper]:
                    continue
                if not unplaced & alive[section]:
                    floor[section], changed = capacity, True
                    continue
                rise = min(floor[lower] if lower >= begin else capacity, floor[upper] if upper < end else capacity)
                slack[section] -= rise - height
                if slack[section] < 0:
                    self.blame[section] += 1
                    return None
                floor[section], changed = rise, True
        return True

    def _pieces(self, region: _Region) -> list[_Region]:
        """Return the region's parts that no unplaced item connects (rule 5), without those that have no items."""
        begin, end, unplaced, floor, slack, branch = region
        cuts = [begin]
        for section in range(begin + 1, end):
            if not unplaced & ~self._born_from[section] & ~self._dead_by[section]:
                cuts.append(section)
        cuts.append(end)
        if len(cuts) == 2:
            return [region]
        pieces: list[_Region] = []
        for a, b in pairwise(cuts):
            inside = unplaced & self._born_from[a] & self._dead_by[b]
            if inside:
                pieces.append(_Region(a, b, inside, floor, slack, branch))
        return pieces

    def _choices(self, region: _Region) -> list[_Choice]:
        """Return the branches at the best section (rules 3 and 4), the last to be tried first."""
        best = None
        for valley in _valleys(region, self.capacity):
            found = self._best_section(region, *valley)
            best = found if best is None or found[0] < best[0] else best
        if best is None:
            return []
        _, section, candidates, height, rise = best
        result = [_Choice(-1, section, rise)] if region.slack[section] >= rise - height else []
        seen: set[Item] = set()
        ordered: list[_Choice] = []
        for bit in _bits(candidates):
            if self._items[bit] not in seen:
                seen.add(self._items[bit])
                ordered.append(_Choice(bit, section, height))
        return result + ordered[::-1]

    def _best_section(
        self, region: _Region, begin: int, end: int, wall: int
    ) -> tuple[tuple[float, int, int], int, int, int, int]:
        """Return for one valley the least merit, the section, its candidates, its floor, and the floor for none."""
        height = region.floor[begin]
        inside = region.unplaced & self._born_from[begin] & self._dead_by[end]
        rise = min(wall, height + min(self._items[bit].size for bit in _bits(inside)))
        best, previous = None, (-1, False)
        for section in range(begin, end):
            candidates = inside & self._alive[section]
            slack = region.slack[section]
            now = candidates, slack >= rise - height
            if now == previous:
                continue
            previous = now
            count = candidates.bit_count() + now[1]
            merit = (count - 1) * (slack + self.capacity / 128) / self.blame[section], count, section
            if best is None or merit < best[0]:
                best = merit, section, candidates, height, rise
        assert best is not None, "a valley has sections"
        return best

    def _back(self, number: int) -> _Open:
        """Return to the next choice of this branch or its nearest ancestor with one; None if there is none left."""
        branches = self._branches
        while number >= 0:
            del branches[number + 1 :]
            branch = branches[number]
            if branch.choices and not branch.final:
                return self._chosen(branch, branch.choices.pop(), number), branch.rest
            region = branch.region
            self._failed.add((region.unplaced, tuple(region.floor[region.begin : region.end])))
            number = region.branch
        return None

    def _chosen(self, branch: _Branch, choice: _Choice, number: int) -> _Region:
        begin, end, unplaced, floor, slack, _ = branch.region
        floor, slack = floor.copy(), slack.copy()
        if choice.item < 0:
            slack[choice.section] -= choice.height - floor[choice.section]
            floor[choice.section] = choice.height
            return _Region(begin, end, unplaced, floor, slack, number)
        first, last, size = self._items[choice.item]
        unplaced &= ~(1 << choice.item)
        branch.final = not unplaced & ~self._born_from[last] & ~self._dead_by[first]
        self._placed[choice.item] = choice.height
        floor[first:last] = [choice.height + size] * (last - first)
        return _Region(begin, end, unplaced, floor, slack, number)


def _higher(floor: list[int], begin: int, end: int) -> tuple[list[int], list[int]]:
    """Return the nearest section with a higher floor to the left and right of each section, or begin - 1 and end."""
    left, right = [begin - 1] * (end - begin), [end] * (end - begin)
    stack: list[int] = []
    for section in range(begin, end):
        height = floor[section]
        while stack and floor[stack[-1]] < height:
            right[stack.pop() - begin] = section
        if stack:
            top = stack[-1]
            left[section - begin] = top if floor[top] > height else left[top - begin]
        stack.append(section)
    return left, right


def _valleys(region: _Region, capacity: int) -> Iterator[tuple[int, int, int]]:
    """Yield the runs of sections with one floor between higher ones: first section, end, the lower wall."""
    begin, end, _, floor, _, _ = region
    section, left = begin, capacity
    while section < end:
        height, start = floor[section], section
        while section < end and floor[section] == height:
            section += 1
        right = floor[section] if section < end else capacity
        if height < left and height < right:
            yield start, section, min(left, right)
        left = height


def _bits(number: int) -> Iterator[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low

"""Place what is alive around the busiest moment first, and the rest around that.

In a long program only the peak is tight, and few items are born or die near it. So:

1. The window is a stretch of sections around the busiest ones, as long as few enough items change in it to search.
2. Items that are alive throughout the window lie at its bottom: any placement of the window can be sorted so, with
   nothing higher than before. The longest-lived are lowest, which leaves the fewest holes before and after the window.
3. The others are placed above them as a part of their own, with their lives cut to the window.
4. Then all items go into the lowest gap that fits: those of the window from the bottom up, the rest by size. Items of
   the window that are ever alive together are so within it; therefore none ends up higher than it was placed in 3.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Final

import numpy as np

from runtime.placement.gaps import first_fit
from runtime.placement.rankings import ranking_of
from runtime.placement.sections import Part, parts_of

MOST_IN_WINDOW: Final = 256
"""Items that are born or die in the window; the search mostly places so many within a second."""


def peak_first(
    part: Part, goal: int, place: Callable[[Part, int], list[int]], most: int = MOST_IN_WINDOW
) -> list[int] | None:
    """An offset for each item, or None where the window would be all of the part.

    Args:
        part: what to place.
        goal: the height that will do, at least the lower bound.
        place: offsets for the items of a part of the window, if possible not above the height.
        most: items that may be born or die in the window.
    """
    begin, end = _window(part, most)
    if end - begin == part.sections:
        return None
    alive = [i for i, (first, last, _) in enumerate(part.items) if first < end and begin < last]
    throughout = {i for i in alive if part.items[i].first <= begin and end <= part.items[i].last}
    changing = [i for i in alive if i not in throughout]
    above = goal - sum(part.items[i].size for i in throughout)
    offsets: dict[int, int] = {}
    for core in parts_of([_cut(part, i, begin, end) for i in changing]):
        for i, offset in zip(core.buffers, place(core, above), strict=True):
            offsets[changing[i]] = offset
    ranking = ranking_of(part, ("life", "size"))
    order = [i for i in ranking if i in throughout] + sorted(changing, key=lambda i: (offsets[i], i))
    rest = [i for i in ranking_of(part, ("size", "life")) if i not in throughout and i not in offsets]
    return first_fit(part, order + rest)


def _window(part: Part, most: int) -> tuple[int, int]:
    """From the first to after the last of the busiest sections, of as many as there may be."""
    busiest = np.argsort(-np.array(part.load, np.int64), kind="stable")
    first, last, _ = (np.array(column, np.int64) for column in zip(*part.items, strict=True))

    def stretch(count: int) -> tuple[int, int]:
        return int(busiest[:count].min()), int(busiest[:count].max()) + 1

    def changing(count: int) -> int:
        begin, end = stretch(count)
        return int(np.count_nonzero((first < end) & (last > begin) & ((first > begin) | (last < end))))

    return stretch(bisect_right(range(1, part.sections + 1), most, key=changing))


def _cut(part: Part, i: int, begin: int, end: int) -> tuple[int, int, int]:
    first, last, size = part.items[i]
    return max(first, begin), min(last, end), size

"""Places the items that are alive around the busiest moment first, and the rest around them.

In a long program only the peak is tight, and few items are born or die near it. So:

1. The window is a stretch of sections around the busiest ones, as long as few enough items change in it to search.
2. Items that are alive throughout the window lie at its bottom: any placement of the window can be sorted so, with
   nothing higher than before. The longest-lived are lowest, which leaves the fewest holes before and after the window.
3. The others are placed above them as a part of their own, with their lives cut to the window.
4. Then all items go into the lowest gap that fits: those of the window from the bottom up, the rest by size. Items of
   the window that are ever alive together are so within it; therefore none ends up higher than it was placed in 3.
5. A step with gradient accumulation has several peaks, far apart. If an item ends above the goal, each peak gets a
   window, and steps 2 to 4 are repeated with all windows: items that live through the most windows lie lowest. Then,
   round by round, the busiest section outside the windows where an item ends above the goal starts another one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from runtime.placement.gaps import first_fit
from runtime.placement.rankings import ranking_of
from runtime.placement.sections import Part, parts_of

MOST_IN_WINDOW: Final = 256
"""Upper bound on the items that are born or die in a window; the search mostly places this number in a second."""

MAX_WINDOWS: Final = 16
"""Upper bound on the windows of one part; a step with gradient accumulation has a peak in each micro-batch."""


def rounds_from_peaks(
    part: Part, goal: int, place: Callable[[Part, int], list[int]], most: int = MOST_IN_WINDOW, rounds: int = 1
) -> Iterator[list[int]]:
    """Yield an offset for each item in each round, and nothing where the first window would be all of the part.

    Args:
        part: what to place.
        goal: the height that will do, at least the lower bound; a round that reaches it is the last.
        place: offsets for the items of a part of the window, if possible not above the height.
        most: items that may be born or die in the window.
        rounds: the maximum number of rounds; all but the first may add windows.
    """
    span = _window(part, most)
    if span[1] - span[0] == part.sections:
        return
    windows = [_place_window(part, span, goal, place)]
    for number in range(rounds):
        offsets = first_fit(part, _order(part, windows))
        yield offsets
        tops = np.array([offset + item.size for offset, item in zip(offsets, part.items, strict=True)], np.int64)
        if tops.max() <= goal or number + 1 == rounds:
            return
        peaks = [] if number else _peaks(part, goal, most)
        if len(peaks) > 1:  # distant peaks shared the first window, which is narrow then
            windows = [_place_window(part, peak, goal, place) for peak in peaks]
            continue
        following = _next_window(part, tops > goal, [window.span for window in windows], most)
        if following is None or len(windows) == MAX_WINDOWS:
            return
        windows.append(_place_window(part, following, goal, place))


def _peaks(part: Part, goal: int, most: int) -> list[tuple[int, int]]:
    """Return a window around each section that is as busy as the goal but for a 512th, the busiest first."""
    everyone = np.ones(len(part.items), np.bool_)
    found: list[tuple[int, int]] = []
    while len(found) < MAX_WINDOWS:
        span = _next_window(part, everyone, found, most)
        if span is None or max(part.load[span[0] : span[1]]) < goal - goal // 512:
            break
        found.append(span)
    return found


class _Window(NamedTuple):
    """A window: its sections, the items that live through it, and the offsets of the others above those."""

    span: tuple[int, int]
    throughout: set[int]
    offsets: dict[int, int]


def _place_window(part: Part, span: tuple[int, int], goal: int, place: Callable[[Part, int], list[int]]) -> _Window:
    """Place the items that are born or die in the window above the items that live through it."""
    begin, end = span
    alive = [i for i, (first, last, _) in enumerate(part.items) if first < end and begin < last]
    throughout = {i for i in alive if part.items[i].first <= begin and end <= part.items[i].last}
    changing = [i for i in alive if i not in throughout]
    above = goal - sum(part.items[i].size for i in throughout)
    offsets: dict[int, int] = {}
    for core in parts_of([_cut(part, i, begin, end) for i in changing]):
        for i, offset in zip(core.buffers, place(core, above), strict=True):
            offsets[changing[i]] = offset
    return _Window(span, throughout, offsets)


def _order(part: Part, windows: Sequence[_Window]) -> list[int]:
    """Return the items from the bottom up: those through most windows, those of the windows, and the rest by size."""
    through = Counter(i for window in windows for i in window.throughout)
    offsets: dict[int, int] = {}
    for window in windows:
        offsets = window.offsets | offsets
    bottom = sorted((i for i in ranking_of(part, ("life", "size")) if i in through), key=lambda i: -through[i])
    changing = sorted((i for i in offsets if i not in through), key=lambda i: (offsets[i], i))
    rest = [i for i in ranking_of(part, ("size", "life")) if i not in through and i not in offsets]
    return bottom + changing + rest


def _next_window(
    part: Part, is_high: np.ndarray, spans: Sequence[tuple[int, int]], most: int
) -> tuple[int, int] | None:
    """Return a window around the busiest section, outside the windows, where an item ends too high."""
    first, last, _ = (np.array(column, np.int64) for column in zip(*part.items, strict=True))
    is_candidate = np.zeros(part.sections, bool)
    for i in np.flatnonzero(is_high):
        is_candidate[first[i] : last[i]] = True
    load = np.array(part.load, np.int64)
    for begin, end in spans:
        load[begin:end] = -1
    begin = int(np.where(is_candidate, load, -1).argmax())
    if load[begin] < 0:
        return None
    end = begin + 1
    while True:
        left = load[begin - 1] if begin else -1
        right = load[end] if end < part.sections else -1
        if left < 0 and right < 0:
            return begin, end
        wider = (begin - 1, end) if left >= right else (begin, end + 1)
        if _changing(first, last, *wider) > most:
            return begin, end
        begin, end = wider


def _window(part: Part, most: int) -> tuple[int, int]:
    """Return the span from the first to the last of as many of the busiest sections as `most` allows."""
    busiest = np.argsort(-np.array(part.load, np.int64), kind="stable")
    first, last, _ = (np.array(column, np.int64) for column in zip(*part.items, strict=True))

    def stretch(count: int) -> tuple[int, int]:
        return int(busiest[:count].min()), int(busiest[:count].max()) + 1

    return stretch(
        bisect_right(range(1, part.sections + 1), most, key=lambda number: _changing(first, last, *stretch(number)))
    )


def _changing(first: np.ndarray, last: np.ndarray, begin: int, end: int) -> int:
    """Return the number of items that are born or die in the window."""
    return int(np.count_nonzero((first < end) & (last > begin) & ((first > begin) | (last < end))))


def _cut(part: Part, i: int, begin: int, end: int) -> tuple[int, int, int]:
    first, last, size = part.items[i]
    return max(first, begin), min(last, end), size

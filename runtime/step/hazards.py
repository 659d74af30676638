"""Dependencies between ops: read after write, write after read, write after write.

The hazards follow from the bytes that each op touches, so buffers that share bytes in the arena, scratch, and states
updated in place need no special case. Other effects of an op concern a named resource: see `effects`. Any order that
respects both computes the same bits, and has the same effects outside.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from runtime.contract import Effect
from runtime.step.effects import ordered_by_effects

Range = tuple[int, int]


class Touched(NamedTuple):
    """The half-open ranges of addresses that an op reads and writes, and its effects."""

    reads: list[Range]
    writes: list[Range]
    effects: Sequence[Effect] = ()


@dataclass
class _Segment:
    start: int
    stop: int
    writer: int | None = None
    readers: set[int] = field(default_factory=set[int])


def dependencies(ops: Sequence[Touched]) -> list[set[int]]:
    """Return, for each op, the earlier ops that must be done before it starts."""
    before = _ordered_by_bytes(ops)
    for i, earlier in ordered_by_effects([op.effects for op in ops]).items():
        before[i] |= earlier
    return before


def _ordered_by_bytes(ops: Sequence[Touched]) -> list[set[int]]:
    """Return the dependencies by bytes.

    One pass keeps disjoint segments of memory, sorted, each with its last writer and the readers since.
    """
    before: list[set[int]] = [set() for _ in ops]
    starts: list[int] = []
    segments: list[_Segment] = []
    for i, (reads, writes, _) in enumerate(ops):
        for start, stop in reads:
            for segment in _cover(starts, segments, start, stop):
                if segment.writer is not None:
                    before[i].add(segment.writer)
                segment.readers.add(i)
        for start, stop in writes:
            for segment in _cover(starts, segments, start, stop):
                before[i] |= segment.readers
                if segment.writer is not None:
                    before[i].add(segment.writer)
                segment.writer, segment.readers = i, set()
        before[i].discard(i)
    return before


def _cover(starts: list[int], segments: list[_Segment], start: int, stop: int) -> list[_Segment]:
    """Return segments that together are exactly [start, stop), split and added as needed."""
    _split(starts, segments, start)
    _split(starts, segments, stop)
    first = last = bisect_right(starts, start - 1)
    while last < len(segments) and segments[last].start < stop:
        last += 1
    covered: list[_Segment] = []
    at = start
    for segment in segments[first:last]:
        if at < segment.start:
            covered.append(_Segment(at, segment.start))
        covered.append(segment)
        at = segment.stop
    if at < stop:
        covered.append(_Segment(at, stop))
    segments[first:last] = covered
    starts[first:last] = [segment.start for segment in covered]
    return covered


def _split(starts: list[int], segments: list[_Segment], at: int) -> None:
    i = bisect_right(starts, at) - 1
    if i < 0 or not segments[i].start < at < segments[i].stop:
        return
    left = segments[i]
    segments.insert(i + 1, _Segment(at, left.stop, left.writer, set(left.readers)))
    starts.insert(i + 1, at)
    left.stop = at

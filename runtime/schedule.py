"""Runs ops on several threads, each as soon as what it depends on is done.

The dependencies are the hazards on memory: read after write, write after read, write after write. They follow
from the bytes that each op touches, so buffers that share a place in the arena, and states updated in place,
need no special case. Any order that respects them computes the same bits.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from runtime.kernel import Array


class Task(NamedTuple):
    """A call and the half-open ranges of addresses that it reads and writes."""

    call: Callable[[], object]
    reads: list[tuple[int, int]]
    writes: list[tuple[int, int]]


def address_ranges(arrays: Iterable[Array]) -> list[tuple[int, int]]:
    """Where contiguous arrays lie in memory."""
    return [(a.ctypes.data, a.ctypes.data + a.nbytes) for a in arrays if a.nbytes]


@dataclass
class _Segment:
    start: int
    stop: int
    writer: int | None = None
    readers: set[int] = field(default_factory=set[int])


def dependencies(tasks: Sequence[Task]) -> list[set[int]]:
    """For each task the earlier tasks that must be done before it starts.

    One pass that keeps disjoint segments of memory, sorted, each with its last writer and the readers since.
    """
    before: list[set[int]] = [set() for _ in tasks]
    starts: list[int] = []
    segments: list[_Segment] = []
    for i, task in enumerate(tasks):
        for start, stop in task.reads:
            for segment in _cover(starts, segments, start, stop):
                if segment.writer is not None:
                    before[i].add(segment.writer)
                segment.readers.add(i)
        for start, stop in task.writes:
            for segment in _cover(starts, segments, start, stop):
                before[i] |= segment.readers
                if segment.writer is not None:
                    before[i].add(segment.writer)
                segment.writer, segment.readers = i, set()
        before[i].discard(i)
    return before


def _cover(starts: list[int], segments: list[_Segment], start: int, stop: int) -> list[_Segment]:
    """Segments that together are exactly [start, stop), split and added as needed."""
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


class Worklist:
    """Threads that wait for a step, then take ready tasks in the order of the list."""

    def __init__(self, tasks: Sequence[Task], before: Sequence[set[int]], threads: int) -> None:
        self._calls = [task.call for task in tasks]
        self._waits = [len(needed) for needed in before]
        self._after: list[list[int]] = [[] for _ in tasks]
        for i, needed in enumerate(before):
            for j in needed:
                self._after[j].append(i)
        self._condition = threading.Condition()
        self._ready: list[int] = []
        self._missing: list[int] = []
        self._left = 0
        self._closed = False
        self.failure: tuple[int, BaseException] | None = None
        for number in range(threads - 1):
            threading.Thread(target=self._serve, name=f"prograd-{number + 1}", daemon=True).start()

    def run(self) -> None:
        """Run every task once; the caller is one of the threads. `failure` has the first task that raised, if any."""
        with self._condition:
            self.failure = None
            self._missing = list(self._waits)
            self._ready = [i for i, count in enumerate(self._waits) if not count]
            self._left = len(self._calls)
            self._condition.notify_all()
        while (i := self._take(until_done=True)) is not None:
            self._execute(i)

    def close(self) -> None:
        """Let the threads end; the list cannot run again."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def _serve(self) -> None:
        np.seterr(all="ignore")
        while (i := self._take(until_done=False)) is not None:
            self._execute(i)

    def _take(self, *, until_done: bool) -> int | None:
        """The first ready task; None when the list is closed or, if asked, when every task is done."""
        with self._condition:
            while not self._ready:
                if self._closed or (until_done and not self._left):
                    return None
                self._condition.wait()
            return heappop(self._ready)

    def _execute(self, i: int) -> None:
        if self.failure is None:
            try:
                self._calls[i]()
            except BaseException as error:  # an interrupt too: the other threads must come to rest before it is raised
                with self._condition:
                    if self.failure is None or i < self.failure[0]:
                        self.failure = (i, error)
        with self._condition:
            self._left -= 1
            for j in self._after[i]:
                self._missing[j] -= 1
                if not self._missing[j]:
                    heappush(self._ready, j)
            self._condition.notify_all()

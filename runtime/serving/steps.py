"""The fastest steps that cover a number of rows: a step that is not full may cost less than several smaller ones.

1. Each binding of the entry is timed once, on zeros.
2. The largest steps cover as many rows as they fill. The fastest combination covers the rest: one larger step that is
   not full, or smaller ones. Unfilled rows repeat the last row, and their results are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Final

import numpy as np

from runtime.dtypes import Array
from runtime.engines.engine import Executor
from runtime.entries import BoundEntry
from runtime.errors import ExecutionError
from runtime.runs.predictions import fill
from runtime.runs.session import Session

_ENOUGH: Final = 0.2
"""Seconds after which the timing of a binding ends."""


class Steps:
    """The steps of an entry whose feeds and fetches all have rows, and one of whose bindings takes a single row."""

    def __init__(self, session: Session, bindings: Sequence[BoundEntry]) -> None:
        self._session = session
        self._bindings = bindings
        self._seconds = self._timed()
        self._covers: dict[int, list[BoundEntry]] = {}

    @property
    def longest(self) -> float:
        """Seconds of the largest step."""
        return self._seconds[0]

    def compute(self, parts: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
        """Return the entry's fetches for the rows of all parts, each an array per feed, one after the other.

        Raises ExecutionError that names the op.
        """
        feeds = parts[0]
        if len(parts) > 1:
            feeds = {name: np.concatenate([part[name] for part in parts]) for name in feeds}
        rows = len(next(iter(feeds.values())))
        steps = self.cover(rows)
        found: dict[str, Array] = {}
        with self._session.apart(steps, ()) as lent:
            start = 0
            for bound in steps:
                executor = lent.executor(bound)
                count = min(bound.rows, rows - start)
                fill(executor, feeds, start, count)
                self._session.stepper.step(executor)
                for name, array in executor.fetches.items():
                    if name not in found:
                        found[name] = np.empty((rows, *array.shape[1:]), array.dtype)
                    found[name][start : start + count] = array[:count]
                start += count
        return found

    def cover(self, rows: int) -> list[BoundEntry]:
        """Return the steps for `rows` rows, the last of which may have more."""
        if rows not in self._covers:
            full, rest = divmod(rows, self._bindings[0].rows)
            self._covers[rows] = [self._bindings[0]] * full + self._best(rest, 0)[1]
        return self._covers[rows]

    def _best(self, rows: int, first: int) -> tuple[float, list[BoundEntry]]:
        """Return the least seconds, and the steps that take them, for fewer rows than binding `first` has."""
        if not rows:
            return 0.0, []
        bound, seconds = self._bindings[first], self._seconds[first]
        if first + 1 == len(self._bindings):
            return seconds * rows, [bound] * rows
        smaller = self._bindings[first + 1]
        full, rest = divmod(rows, smaller.rows)
        less, steps = self._best(rest, first + 1)
        less += full * self._seconds[first + 1]
        return (seconds, [bound]) if seconds < less else (less, [smaller] * full + steps)

    def _timed(self) -> list[float]:
        with self._session.apart(self._bindings, ()) as lent:
            return [_seconds(lent.executor(bound)) for bound in self._bindings]


def _seconds(executor: Executor) -> float:
    """Return the seconds of the fastest of some steps; 1 for an entry that fails on zeros."""
    for feed in executor.feeds.values():
        feed.fill(np.zeros((), feed.dtype)[()])
    least, begun, steps = 1e9, perf_counter(), 0
    while steps < 6 and perf_counter() - begun < _ENOUGH:
        start = perf_counter()
        try:
            executor.step()
        except ExecutionError:
            return 1.0
        least, steps = min(least, perf_counter() - start), steps + 1
    return least

"""Reads the rows of the next step on a thread of its own, during a step.

It reads the rows of the next step into arrays of its own, so no bit depends on it. The thread finishes before anybody
else reads these rows, and it ends with the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from queue import SimpleQueue
from threading import Thread
from typing import NamedTuple

import numpy as np

from runtime.dtypes import Array
from runtime.memory.limit import MemoryLimit
from runtime.rows.rows import Rows
from runtime.rows.streamed import Streamed


class _Asked(NamedTuple):
    """Rows from a position on, and the arrays that receive them."""

    rows: Rows | Streamed
    start: int
    arrays: Mapping[str, Array]


class ReadAhead:
    """Fills feeds, and reads the following rows ahead."""

    def __init__(self, memory: MemoryLimit) -> None:
        self._memory = memory
        self._thread: Thread | None = None
        self._asked: SimpleQueue[_Asked | None] = SimpleQueue()
        self._read: SimpleQueue[BaseException | None] = SimpleQueue()
        self._next: _Asked | None = None
        self._arrays: dict[str, Array] = {}

    def fill(self, rows: Rows | Streamed, feeds: Mapping[str, Array], start: int, count: int) -> None:
        """Fill the feeds for a step of `count` rows as `rows.fill` does; raise its errors."""
        if not self._took(rows, feeds, start):
            rows.fill(feeds, start)
        start += count
        if len(rows) - start >= count:  # the remaining rows of an epoch are read when they are needed
            self._ask(_Asked(rows, start, self._arrays_like(feeds)))

    def close(self) -> None:
        """End the thread."""
        if self._thread is not None:
            self._asked.put(None)
            self._thread.join()
            self._thread = self._next = None

    def _took(self, rows: Rows | Streamed, feeds: Mapping[str, Array], start: int) -> bool:
        """Wait for the rows that are being read, and use them if they are these."""
        asked, self._next = self._next, None
        if asked is None:
            return False
        error = self._read.get()
        if asked.rows is not rows or asked.start != start or _shapes(feeds) != _shapes(asked.arrays):
            return False
        if error is not None:
            raise error
        for name, out in feeds.items():
            np.copyto(out, asked.arrays[name])
        return True

    def _ask(self, asked: _Asked) -> None:
        if self._thread is None:
            self._memory.take_thread(self)
            self._thread = Thread(target=self._go, name="prograd rows", daemon=True)
            self._thread.start()
        self._next = asked
        self._asked.put(asked)

    def _go(self) -> None:
        while (asked := self._asked.get()) is not None:
            try:
                asked.rows.fill(asked.arrays, asked.start)
            except BaseException as error:
                self._read.put(error)
            else:
                self._read.put(None)

    def _arrays_like(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        if _shapes(self._arrays) != _shapes(feeds):
            nbytes = sum(array.nbytes for array in feeds.values())
            self._arrays = {}
            self._memory.take_for(self, nbytes, "the rows of the next step")
            self._arrays = {name: np.empty(array.shape, array.dtype) for name, array in feeds.items()}
        return self._arrays


def _shapes(arrays: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in arrays.items()}

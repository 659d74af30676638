"""Rows shuffled within windows: the memory that it takes does not depend on the number of rows.

1. The rows of a selection, in its order, are partitioned into blocks of neighbours; the last may be short.
2. Blocks are put into the order of the epoch, by the seed of the run; `BLOCKS_PER_WINDOW` of them are a window.
3. Within each window all rows are put into an order of their own.

Each row has one position in an epoch, and the row at a position does not depend on earlier positions: a run resumes
anywhere. docs/format.md has the definition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from runtime.dtypes import Array
from runtime.memory.limit import MemoryLimit
from runtime.philox import permutation
from runtime.rows.orders import NUMBER_BYTES, Order
from runtime.rows.stored_column import StoredColumn

BLOCKS_PER_WINDOW: Final = 64
"""Number of blocks of a window."""


class Windows:
    """An order that shuffles another one for an epoch, within windows of about `rows` rows."""

    def __init__(self, order: Order, rows: int, seed: int, epoch: int) -> None:
        self.order = order
        self._seed, self._epoch = seed, epoch
        self._block = max(1, rows // BLOCKS_PER_WINDOW)
        self._blocks = permutation(seed, epoch, -(-len(order) // self._block))
        self._short = int(np.argmax(self._blocks))  # position of the last block
        self._missing = len(self._blocks) * self._block - len(order)  # number of rows that the last block lacks
        self._known: tuple[int, Array] = (-1, np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.order)

    @property
    def nbytes(self) -> int:
        """Bytes of the order; see `Order`."""
        return self.order.nbytes + self._blocks.nbytes + self.rows * NUMBER_BYTES

    @property
    def rows(self) -> int:
        """Upper bound on the rows of a window."""
        return min(BLOCKS_PER_WINDOW * self._block, len(self.order))

    def window_at(self, position: int) -> int:
        """Return the number of the window that has a position."""
        window = position // (BLOCKS_PER_WINDOW * self._block)
        return window + (position >= self.start(window + 1))

    def start(self, window: int) -> int:
        """Return the first position of a window, or the end."""
        blocks = min(window * BLOCKS_PER_WINDOW, len(self._blocks))
        return blocks * self._block - (self._missing if self._short < blocks else 0)

    def pieces(self, window: int) -> list[Array]:
        """Return the numbers of the rows of a window, block by block, before they are shuffled."""
        blocks = self._blocks[window * BLOCKS_PER_WINDOW : (window + 1) * BLOCKS_PER_WINDOW].tolist()
        return [self.order.numbers(block * self._block, self._block) for block in blocks]

    def shuffled(self, window: int) -> Array:
        """Return the order of a window's rows: int64 positions among those of its pieces."""
        count = self.start(window + 1) - self.start(window)
        return permutation(self._seed, self._epoch + ((window + 1) << 32), count)

    def numbers(self, start: int, count: int) -> Array:
        """Return the numbers from a position on; see `Order`."""
        stop = min(start + count, len(self))
        found: list[Array] = []
        while start < stop:
            window = self.window_at(start)
            first, numbers = self.start(window), self._of(window)
            found.append(numbers[start - first : stop - first])
            start = first + len(numbers)
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def at(self, positions: Array) -> Array:
        """Return the numbers at positions; see `Order`."""
        return np.array([self.numbers(position, 1)[0] for position in positions.tolist()], np.int64)

    def _of(self, window: int) -> Array:
        known, numbers = self._known  # one read: another thread may ask for another window
        if known != window:
            numbers = np.concatenate(self.pieces(window))[self.shuffled(window)]
            self._known = window, numbers
        return numbers


class WindowBuffer:
    """The rows of one window at a time, read block by block from their files."""

    def __init__(self, columns: Mapping[str, StoredColumn], windows: Windows, memory: MemoryLimit) -> None:
        """Prepare the columns; raise ResourceLimit if a window does not fit."""
        rows = {name: windows.rows * max(1, column.nbytes // max(1, len(column))) for name, column in columns.items()}
        memory.take_for(self, sum(rows.values()) + windows.rows * NUMBER_BYTES, f"a window of {windows.rows} rows")
        self._columns = columns
        self._windows = windows
        self._arrays = {
            name: np.empty((windows.rows, *column.shape[1:]), column.dtype) for name, column in columns.items()
        }
        self._window = -1
        self._order = np.empty(0, np.int64)

    def fill(self, feeds: Mapping[str, Array], start: int) -> None:
        """Copy the rows from position `start` on, as many as the feeds take."""
        count = min((len(out) for out in feeds.values()), default=0)
        done = 0
        while done < count:
            window = self._windows.window_at(start + done)
            self._read(window)
            first = start + done - self._windows.start(window)
            places = self._order[first : first + count - done]
            for name, out in feeds.items():
                np.take(self._arrays[name], places, axis=0, out=out[done : done + len(places)], mode="clip")
            done += len(places)

    def _read(self, window: int) -> None:
        if window == self._window:
            return
        self._window = -1  # until all of it is there
        at = 0
        for numbers in self._windows.pieces(window):
            for name, column in self._columns.items():
                column.take(numbers, self._arrays[name][at : at + len(numbers)])
            at += len(numbers)
        self._order = self._windows.shuffled(window)
        self._window = window

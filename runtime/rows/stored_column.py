"""A column that stays in its files: rows are read when they are asked for, and nothing of them is kept.

1. Rows that stand one after another are read at once, to where they are wanted.
2. Rows that lie near each other are read with those between them, if these are few.
3. Of others, each run of neighbours is read by itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import prod
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.files.held_file import HeldFile
from runtime.rows.casts import cast_rows

_SPARSE: Final = 4
"""Rows that are read for one that is wanted, at most, where that saves reads."""

_READ: Final = 8 << 10
"""Bytes that are copied in about the time that a read takes, whatever it reads."""

_PIECE: Final = 1 << 20
"""Bytes that are read at once to a place of their own, at most, or one row: nobody counts them."""


class Part(NamedTuple):
    """Rows of a column that lie in one file, from a byte on."""

    file: HeldFile
    offset: int
    rows: int


class StoredColumn:
    """An array whose axis 0 counts rows, in the files that have it; threads may read it side by side.

    Attributes:
        dtype: in which rows are given; `stored` is that of the files.
        shape: of the array.
    """

    def __init__(self, name: str, parts: Sequence[Part], stored: np.dtype[Any], inner: tuple[int, ...]) -> None:
        """`inner` is the shape of a row."""
        self.name = name
        self.dtype = self.stored = stored
        self.firsts = [0]
        for part in parts:
            self.firsts.append(self.firsts[-1] + part.rows)
        self.shape = (self.firsts[-1], *inner)
        self._parts = parts
        self._row_bytes = prod(inner) * stored.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """Of all rows, in the files."""
        return self.shape[0] * self._row_bytes

    def cast(self, dtype: np.dtype[Any]) -> StoredColumn:
        """The same rows, given in another dtype."""
        other = StoredColumn(self.name, self._parts, self.stored, self.shape[1:])
        other.dtype = dtype
        return other

    def take(self, numbers: Array, out: Array) -> None:
        """Copy the rows of these numbers, which are there, to `out`.

        Raises DataError if they cannot be read, were changed, or are none: a bool that is neither 0 nor 1.
        """
        if not len(numbers):
            return
        if self.dtype == self.stored and out.flags.c_contiguous:
            self._take(numbers, out)
            self._check(numbers, out)
            return
        rows = max(1, _PIECE // max(1, self._row_bytes))
        for start in range(0, len(numbers), rows):
            piece = numbers[start : start + rows]
            read = np.empty((len(piece), *self.shape[1:]), self.stored)
            self._take(piece, read)
            self._check(piece, read)
            cast_rows(self.name, read, out[start : start + rows], piece)

    def _check(self, numbers: Array, read: Array) -> None:
        """Raise DataError if the files that these rows were read from were changed, or they are none."""
        places = np.unique(np.searchsorted(self.firsts[1:], numbers, side="right")) if len(self._parts) > 1 else [0]
        for place in places:
            self._parts[place].file.require_unchanged()
        if self.stored == np.bool_ and read.view(np.uint8).max(initial=0) > 1:
            raise DataError(f"{self._parts[0].file.path}: {self.name!r} has a bool that is neither 0 nor 1")

    def _take(self, numbers: Array, out: Array) -> None:
        breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
        if not len(breaks):
            self._read(int(numbers[0]), out)
            return
        low, high = int(numbers.min()), int(numbers.max())
        worth = len(numbers) * max(_SPARSE * self._row_bytes, _READ)
        if (high - low + 1) * self._row_bytes <= min(worth, _PIECE):
            near = np.empty((high - low + 1, *self.shape[1:]), self.stored)
            self._read(low, near)
            np.take(near, numbers - low, axis=0, out=out)
            return
        stops = [*breaks.tolist(), len(numbers)]
        for start, stop in zip([0, *stops], stops, strict=False):
            self._read(int(numbers[start]), out[start:stop])

    def _read(self, first: int, out: Array) -> None:
        """Read the rows from one on, through as many files as it takes."""
        place = bisect_right(self.firsts, first) - 1
        done = 0
        while done < len(out) and self._row_bytes:
            part, inside = self._parts[place], first + done - self.firsts[place]
            count = min(len(out) - done, part.rows - inside)
            if count:
                raw = out[done : done + count].reshape(-1).view(np.uint8).data
                part.file.read(part.offset + inside * self._row_bytes, raw)
            done += count
            place += 1


FileColumn = Array | StoredColumn
"""An array of a data file: in memory, or still there."""


class Padded(Protocol):
    """Rows that are made to fit when a step takes them."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def __len__(self) -> int:
        """How many rows there are."""
        ...

    def take(self, numbers: Array, out: Array) -> None:
        """Write the rows of these numbers."""
        ...


Column = FileColumn | Padded
"""Rows of a feed: in memory, in files, or of unequal length."""


def take_rows(column: Column, numbers: Array, out: Array) -> None:
    """Copy the rows of these numbers, which are there, to `out`."""
    if isinstance(column, np.ndarray):
        np.take(column, numbers, axis=0, out=out, mode="clip")  # clip: no buffer; checked before
    else:
        column.take(numbers, out)


def rows_of(column: Column, numbers: Array) -> Array:
    """A copy of these rows."""
    out = np.empty((len(numbers), *column.shape[1:]), column.dtype)
    take_rows(column, numbers, out)
    return out


class StoredNumbers:
    """An order whose numbers are a column of whole numbers: those of each file count its own rows."""

    nbytes = 0

    def __init__(self, column: StoredColumn, shifts: Sequence[int]) -> None:
        """`shifts` are for each file the number of its first row among all."""
        self._column = column
        self._shifts = np.array(shifts, np.int64)
        self._firsts = np.array(column.firsts[1:], np.int64)

    def __len__(self) -> int:
        return len(self._column)

    def numbers(self, start: int, count: int) -> Array:
        """See `Order`."""
        return self.at(np.arange(start, min(start + count, len(self))))

    def at(self, positions: Array) -> Array:
        """See `Order`."""
        places = np.searchsorted(self._firsts, positions, side="right")
        return rows_of(self._column, positions) + self._shifts[places]

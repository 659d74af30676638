"""A column that stays in its files: rows are read on demand, and not kept.

1. Adjacent rows are read at once, to their destination.
2. Rows that lie near each other are read with those between them, if these are few.
3. Otherwise each run of neighbours is read separately.
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
"""Upper bound on the rows that are read per requested row, where that saves reads."""

_READ: Final = 8 << 10
"""Bytes that are copied in about the time of one read, whatever its size."""

_PIECE: Final = 1 << 20
"""Upper bound in bytes on a read into a temporary, or one row; the account of memory does not count it."""


class Part(NamedTuple):
    """Rows of a column that lie in one file, from a byte on."""

    file: HeldFile
    offset: int
    rows: int


class StoredColumn:
    """An array whose axis 0 counts rows, in its files; threads may read it concurrently.

    Attributes:
        dtype: dtype of the rows in memory; `stored` is that of the files.
        shape: shape of the array.
    """

    def __init__(self, name: str, parts: Sequence[Part], stored: np.dtype[Any], inner: tuple[int, ...]) -> None:
        """Begin with the parts in the files; `inner` is the shape of a row."""
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
        """The bytes of all rows in the files."""
        return self.shape[0] * self._row_bytes

    def cast(self, dtype: np.dtype[Any]) -> StoredColumn:
        """Return the same rows in another dtype."""
        other = StoredColumn(self.name, self._parts, self.stored, self.shape[1:])
        other.dtype = dtype
        return other

    def take(self, numbers: Array, out: Array) -> None:
        """Copy the rows of these numbers, which must exist, to `out`.

        Raises DataError if they cannot be read, were changed, or are invalid: a bool that is neither 0 nor 1.
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
        """Raise DataError if the files of these rows were changed, or the rows are invalid."""
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
        """Read the rows from `first` on, from as many files as needed."""
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
"""An array of a data file: in memory, or still in the file."""


class Padded(Protocol):
    """Rows that are padded when a step takes them."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def __len__(self) -> int:
        """Return the number of rows."""
        ...

    def take(self, numbers: Array, out: Array) -> None:
        """Write the rows of these numbers."""
        ...


Column = FileColumn | Padded
"""The rows of a feed: in memory, in files, or of unequal length."""


def take_rows(column: Column, numbers: Array, out: Array) -> None:
    """Copy the rows of these numbers, which must exist, to `out`."""
    if isinstance(column, np.ndarray):
        np.take(column, numbers, axis=0, out=out, mode="clip")  # clip: no buffer; checked before
    else:
        column.take(numbers, out)


def rows_of(column: Column, numbers: Array) -> Array:
    """Return a copy of these rows."""
    out = np.empty((len(numbers), *column.shape[1:]), column.dtype)
    take_rows(column, numbers, out)
    return out


class StoredNumbers:
    """An order whose numbers are a column of integers: those of each file count its own rows."""

    nbytes = 0

    def __init__(self, column: StoredColumn, shifts: Sequence[int]) -> None:
        """Begin with the column; `shifts` are for each file the number of its first row among all."""
        self._column = column
        self._shifts = np.array(shifts, np.int64)
        self._firsts = np.array(column.firsts[1:], np.int64)

    def __len__(self) -> int:
        return len(self._column)

    def numbers(self, start: int, count: int) -> Array:
        """Return the numbers from a position on; see `Order`."""
        return self.at(np.arange(start, min(start + count, len(self))))

    def at(self, positions: Array) -> Array:
        """Return the numbers at positions; see `Order`."""
        places = np.searchsorted(self._firsts, positions, side="right")
        return rows_of(self._column, positions) + self._shifts[places]

"""Orders: the number of the row at each position, without an array of all numbers where a rule gives them.

The rows of a selection are at positions 0, 1, 2 …; an order returns their numbers in the data.
"""

from __future__ import annotations

from typing import Final, Protocol, runtime_checkable

import numpy as np

from runtime.dtypes import Array

NUMBER_BYTES: Final = 8
"""Bytes of a row number."""


class Order(Protocol):
    """Numbers of rows by position."""

    def __len__(self) -> int:
        """Return the number of positions."""
        ...

    @property
    def nbytes(self) -> int:
        """The bytes of memory that the order takes."""
        ...

    def numbers(self, start: int, count: int) -> Array:
        """Return the int64 numbers of the rows at `count` positions from `start` on, fewer at the end."""
        ...

    def at(self, positions: Array) -> Array:
        """Return the numbers of the rows at these positions."""
        ...


@runtime_checkable
class ShuffledBySteps(Order, Protocol):
    """An order with its own way of shuffling, since every step takes rows of one length."""

    def bucket_at(self, position: int) -> int:
        """Return the index of the length of the step that begins at a position."""
        ...

    def shuffled(self, seed: int, epoch: int) -> Order:
        """Return the same rows in the order of an epoch."""
        ...


class Span:
    """Every `stride`-th row from `start` on, `count` rows in all."""

    nbytes = 0

    def __init__(self, start: int, count: int, stride: int = 1) -> None:
        self._start, self._count, self._stride = start, count, stride

    def __len__(self) -> int:
        return self._count

    def numbers(self, start: int, count: int) -> Array:
        """Return the numbers from a position on; see `Order`."""
        return self.at(np.arange(start, min(start + count, self._count)))

    def at(self, positions: Array) -> Array:
        """Return the numbers at positions; see `Order`."""
        return positions * self._stride + self._start

    def as_slice(self, start: int) -> slice:
        """Return the slice of all rows from a position on, with which they are copied without an array of numbers."""
        return slice(self._start + start * self._stride, self._start + self._count * self._stride, self._stride)


class Listed:
    """Rows whose numbers are an array."""

    def __init__(self, numbers: Array) -> None:
        self._numbers = numbers
        self.nbytes = numbers.nbytes

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self, start: int, count: int) -> Array:
        """Return the numbers from a position on; see `Order`."""
        return self._numbers[start : start + count]

    def at(self, positions: Array) -> Array:
        """Return the numbers at positions; see `Order`."""
        return self._numbers[positions]

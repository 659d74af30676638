"""Orders: which row stands at which position, without an array of all numbers where a rule says it.

The rows of a selection are at positions 0, 1, 2 …; an order gives their numbers in the data.
"""

from __future__ import annotations

from typing import Final, Protocol, runtime_checkable

import numpy as np

from runtime.dtypes import Array

NUMBER_BYTES: Final = 8
"""Of the number of a row."""


class Order(Protocol):
    """Numbers of rows by position."""

    def __len__(self) -> int:
        """How many positions there are."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the order takes."""
        ...

    def numbers(self, start: int, count: int) -> Array:
        """The int64 numbers of the rows at so many positions from `start` on, or as many as there are."""
        ...

    def at(self, positions: Array) -> Array:
        """The numbers of the rows at these positions."""
        ...


@runtime_checkable
class ShuffledBySteps(Order, Protocol):
    """An order that says by itself how it is shuffled, since every step takes rows of one length."""

    def bucket_at(self, position: int) -> int:
        """Which length the step that begins at a position has."""
        ...

    def shuffled(self, seed: int, epoch: int) -> Order:
        """The same rows in the order of an epoch."""
        ...


class Span:
    """Every `stride`-th row from `start` on, `count` of them."""

    nbytes = 0

    def __init__(self, start: int, count: int, stride: int = 1) -> None:
        self._start, self._count, self._stride = start, count, stride

    def __len__(self) -> int:
        return self._count

    def numbers(self, start: int, count: int) -> Array:
        """See `Order`."""
        return self.at(np.arange(start, min(start + count, self._count)))

    def at(self, positions: Array) -> Array:
        """See `Order`."""
        return positions * self._stride + self._start

    def as_slice(self, start: int) -> slice:
        """All rows from a position on: no numbers need be written down to copy them."""
        return slice(self._start + start * self._stride, self._start + self._count * self._stride, self._stride)


class Listed:
    """Rows whose numbers are an array."""

    def __init__(self, numbers: Array) -> None:
        self._numbers = numbers
        self.nbytes = numbers.nbytes

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self, start: int, count: int) -> Array:
        """See `Order`."""
        return self._numbers[start : start + count]

    def at(self, positions: Array) -> Array:
        """See `Order`."""
        return self._numbers[positions]

"""Rows for full steps: the last row is repeated to fill a step."""

from __future__ import annotations

import numpy as np

from runtime.dtypes import Array
from runtime.rows.orders import Order
from runtime.rows.rows import Rows


def filled_up(rows: Rows, count: int) -> Rows:
    """Return the rows, with the last one repeated until they are `count`."""
    return Rows(rows.columns, rows.whole, FilledUp(rows.order, count))


class FilledUp:
    """An order that repeats its last row until it has `count`."""

    def __init__(self, order: Order, count: int) -> None:
        self._order, self._count = order, count
        self.nbytes = order.nbytes

    def __len__(self) -> int:
        return self._count

    def numbers(self, start: int, count: int) -> Array:
        """Return the numbers from a position on; see `Order`."""
        own = self._order.numbers(start, count)
        missing = min(count, self._count - start) - len(own)
        return np.append(own, np.repeat(self._order.numbers(len(self._order) - 1, 1), missing)) if missing else own

    def at(self, positions: Array) -> Array:
        """Return the numbers at positions; see `Order`."""
        return self._order.at(np.minimum(positions, len(self._order) - 1))

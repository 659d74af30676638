"""Rows for full steps: behind the last row stands the same one again, as often as a step needs."""

from __future__ import annotations

import numpy as np

from runtime.dtypes import Array
from runtime.rows.orders import Order
from runtime.rows.rows import Rows


def filled_up(rows: Rows, count: int) -> Rows:
    """The rows, and further ones behind them until they are so many."""
    return Rows(rows.columns, rows.whole, FilledUp(rows.order, count))


class FilledUp:
    """An order that goes on with its last row until it has `count`."""

    def __init__(self, order: Order, count: int) -> None:
        self._order, self._count = order, count
        self.nbytes = order.nbytes

    def __len__(self) -> int:
        return self._count

    def numbers(self, start: int, count: int) -> Array:
        """See `Order`."""
        own = self._order.numbers(start, count)
        missing = min(count, self._count - start) - len(own)
        return np.append(own, np.repeat(self._order.numbers(len(self._order) - 1, 1), missing)) if missing else own

    def at(self, positions: Array) -> Array:
        """See `Order`."""
        return self._order.at(np.minimum(positions, len(self._order) - 1))

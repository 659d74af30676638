"""Windows of consecutive rows of a table, as for a series in time, and the value that follows each of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, cast

import numpy as np

from runtime.dtypes import Array
from runtime.errors import DataError

NEXT: Final = "_next"
"""End of the name of the array of targets."""


@dataclass(frozen=True)
class Series:
    """The windows of a table.

    Attributes:
        length: rows of a window.
        stride: rows between the starts of two windows of the training.
        target: column that is predicted, or "" for none.
        ahead: rows from the last of a window to its target.
    """

    length: int
    stride: int
    target: str
    ahead: int

    @property
    def key(self) -> str:
        """The name of the array of targets."""
        return self.target + NEXT

    def count(self, rows: int, *, targets: bool) -> int:
        """Return the number of windows at a stride of 1; raise DataError if there is none."""
        needed = self.length + (self.ahead if targets else 0)
        if rows < needed:
            behind = f" and its target {self.ahead} more" if targets else ""
            raise DataError(f"a window takes {self.length} rows{behind}, and the table has {rows}; give more rows")
        return rows - needed + 1

    def windows(self, array: Array, count: int) -> Array:
        """Return `count` windows of an array, [count, length, ...]."""
        view = np.lib.stride_tricks.sliding_window_view(array[: count + self.length - 1], self.length, axis=0)
        return np.ascontiguousarray(np.moveaxis(view, -1, 1))

    def targets(self, array: Array, count: int) -> Array:
        """Return the target of each of `count` windows."""
        start = self.length - 1 + self.ahead
        return array[start : start + count]

    def to_json(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: object) -> Series:
        """Return the windows that `to_json` described; raise ValueError for anything else."""
        given = cast(dict[str, Any], values) if isinstance(values, dict) else {}
        sizes = [given.get(name) for name in ("length", "stride", "ahead")]
        sane = len(given) == 4 and isinstance(given.get("target"), str)
        if not sane or not all(type(size) is int and 0 < size < 1 << 31 for size in sizes):
            raise ValueError("windows are not as they were written")
        return cls(**given)

"""Columns whose rows are of unequal length: they are padded when a step takes them, to the length of the step."""

from __future__ import annotations

from typing import Any

import numpy as np

from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.rows.stored_column import StoredColumn


class RaggedColumn:
    """Concatenated rows in one array, in memory or in a file.

    Attributes:
        dtype: dtype of the elements.
        shape: shape as if all rows were as long as the longest.
        lengths: lengths of the rows, int64.
    """

    def __init__(self, name: str, values: Array | StoredColumn, offsets: Array, padding: Array | None) -> None:
        """Keep the arrays after a check.

        Raises DataError unless offsets rise from 0 to the number of values, and padding is one number of their dtype.
        """
        _require_offsets(name, values, offsets)
        if padding is not None and (padding.dtype != values.dtype or padding.size != 1):
            raise DataError(f"{name}.padding is no number of the dtype of {name!r}, {values.dtype}")
        self._values, self._offsets = values, offsets
        self._padding: Any = 0 if padding is None else padding.reshape(())
        self.lengths: Array = np.diff(offsets)
        self.dtype: np.dtype[Any] = values.dtype
        self.shape: tuple[int, ...] = (len(self.lengths), int(self.lengths.max(initial=0)), *values.shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def take(self, numbers: Array, out: Array) -> None:
        """Copy the rows of these numbers to `out`, and the padding behind them."""
        np.copyto(out, self._padding)
        starts: Array = self._offsets[numbers]
        lengths: Array = self.lengths[numbers]
        if isinstance(self._values, StoredColumn):
            rows: list[Array] = list(out)
            for row, start, length in zip(rows, starts, lengths, strict=True):
                numbers = np.arange(int(start), int(start) + int(length))
                self._values.take(numbers, row[: int(length)])
            return
        ends = np.cumsum(lengths)
        places = np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1] if len(ends) else 0)
        out[_mask(out.shape[1], lengths)] = self._values[places]


class MaskColumn:
    """A mask for each row: True for the elements of another column's row, and False for padding."""

    def __init__(self, lengths: Array, dtype: np.dtype[Any]) -> None:
        self._lengths = lengths
        self.dtype = dtype
        self.shape: tuple[int, ...] = (len(lengths), int(lengths.max(initial=0)))

    def __len__(self) -> int:
        return self.shape[0]

    def take(self, numbers: Array, out: Array) -> None:
        """Write 1 where the rows of these numbers have elements, and 0 elsewhere."""
        lengths: Array = self._lengths[numbers]
        np.copyto(out, _mask(out.shape[1], lengths), casting="unsafe")


def _mask(width: int, lengths: Array) -> Array:
    """Return a mask of the positions of rows that are within their lengths."""
    return np.arange(width) < lengths[:, None]


def _require_offsets(name: str, values: Array | StoredColumn, offsets: Array) -> None:
    if offsets.dtype != np.int64 or offsets.ndim != 1 or not len(offsets):
        raise DataError(f"{name}.offsets is no int64 array of one axis, with a number more than there are rows")
    if offsets[0] != 0 or offsets[-1] != len(values) or (np.diff(offsets) < 0).any():
        raise DataError(
            f"{name}.offsets does not rise from 0 to {len(values)}, the number of elements that {name!r} has in all"
        )

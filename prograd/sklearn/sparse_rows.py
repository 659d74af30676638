"""Sparse rows as an estimator keeps them: the positions and values of what is not 0, row by row."""

from __future__ import annotations

from typing import Any, Final, Self

import numpy as np

from runtime.dtypes import Array

MAX_LENGTHS: Final = 4
"""Numbers of elements for which steps are compiled: rows are padded to the next one."""


class SparseRows:
    """Rows of SciPy's compressed form, in float32.

    Attributes:
        shape: number of rows and of columns.
        matrix: the rows, without explicit zeros.
    """

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix.astype(np.float32)
        self.matrix.sum_duplicates()
        self.matrix.eliminate_zeros()
        self.shape: tuple[int, int] = self.matrix.shape

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: Array) -> Self:
        """Return the rows of a mask, or of numbers."""
        return type(self)(self.matrix[which])

    @property
    def longest(self) -> int:
        """The largest number of elements of a row, at least 1."""
        return max(int(np.diff(self.matrix.indptr).max(initial=1)), 1)

    def length_numbers(self, lengths: tuple[int, ...]) -> Array:
        """Return for each row the number of its padded length: the first length that is large enough."""
        return np.searchsorted(np.asarray(lengths), np.diff(self.matrix.indptr))

    @property
    def density(self) -> float:
        """The share of elements that are not 0."""
        return self.matrix.nnz / max(self.shape[0] * self.shape[1], 1)

    def means(self) -> Array:
        """Return the mean of each column over the numbers that are there, zeros included; NaN is not a number."""
        missing = np.isnan(self.matrix.data)
        numbers = self.matrix.copy()
        numbers.data = np.where(missing, 0, numbers.data)
        absent = np.bincount(self.matrix.indices[missing], minlength=self.shape[1])
        return np.asarray(numbers.sum(axis=0), np.float64).reshape(-1) / np.maximum(self.shape[0] - absent, 1)

    def filled(self, means: Array) -> Self:
        """Return the rows with these means in place of NaN."""
        missing = np.isnan(self.matrix.data)
        if not missing.any():
            return self
        made = self.matrix.copy()
        made.data[missing] = means[made.indices[missing]]
        return type(self)(made)

    def feeds(self) -> dict[str, list[Array]]:
        """Return positions and values, as lists of rows."""
        starts = self.matrix.indptr[1:-1]
        positions = self.matrix.indices.astype(np.int32, copy=False)
        return {"positions": np.split(positions, starts), "values": np.split(self.matrix.data, starts)}


def lengths_for(longest: int) -> tuple[int, ...]:
    """Return the numbers of elements to compile steps for: a power of two above the longest row, and some below."""
    top = max(longest - 1, 1).bit_length()
    return tuple(1 << power for power in range(max(top - MAX_LENGTHS + 1, 0), top + 1))

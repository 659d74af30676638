"""Values of scores: the class of the largest score of a row, and no class where a score is NaN."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np

from runtime.dtypes import Array
from runtime.rows.encoding.column import Column

_log = logging.getLogger("prograd")


def value_of_largest(column: Column, scores: Array) -> Array:
    """Return the class with the largest score of each row [rows, classes]; None for a row with a score that is NaN."""
    return _known(column, scores.argmax(axis=1), np.asarray(np.isnan(scores).any(axis=1)))


def value_of_second(column: Column, shares: Array) -> Array:
    """Return one of two classes for the probability of the second in each row [rows]; None for NaN."""
    return _known(column, (shares > 0.5).astype(np.int64), np.asarray(np.isnan(shares)))


def _known(column: Column, numbers: Array, is_unknown: Array) -> Array:
    values = column.decode(numbers)
    if is_unknown.any():
        values = values.astype(object)
        values[is_unknown] = None
    return values


class Unanswered:
    """Counts of the rows that have no predicted value, because the program computes NaN for them.

    Attributes:
        rows: number of rows so far.
        counts: by name of the value, the number of rows without it.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.counts: dict[str, int] = {}
        self._first: dict[str, int] = {}

    def add(self, values: Mapping[str, Array]) -> int:
        """Count the rows of some predicted values by name; return the number of rows that lack one."""
        lacking = np.zeros(0, bool)
        for name, array in values.items():
            missing = _is_missing(array)
            if missing.any():
                self._first.setdefault(name, self.rows + int(missing.argmax()))
                self.counts[name] = self.counts.get(name, 0) + int(missing.sum())
                lacking = missing | lacking if len(lacking) else missing
        self.rows += max((len(array) for array in values.values()), default=0)
        return int(lacking.sum())

    def warn(self) -> None:
        """Log a warning for each value that rows lack."""
        for name, count in self.counts.items():
            _log.warning(
                "%d of %d rows have no %r, because the program computes NaN for them; the first is row %d",
                count,
                self.rows,
                name,
                self._first[name],
            )


def warn_of_unanswered(values: Mapping[str, Array]) -> None:
    """Log a warning for each predicted value that rows lack."""
    unanswered = Unanswered()
    unanswered.add(values)
    unanswered.warn()


def _is_missing(values: Array) -> Array:
    """Return True for each row whose value is None or NaN."""
    if values.dtype == object:
        return np.fromiter((value is None for value in values), bool, len(values))
    missing = np.asarray(np.isnan(values)) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
    return np.asarray(missing.any(axis=tuple(range(1, missing.ndim))))

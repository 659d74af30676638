"""Frames as they are: columns of numbers, truth values, dates and classes as one matrix of numbers.

1. Numbers and truth values become numbers with mean 0 and deviation 1 over the first rows; a missing one stays NaN.
2. A date or a time becomes the number of days since the first one; the time zone is dropped.
3. Texts and categories become a column for each class, with 1 where a row has it. A missing one is a class. Of more
   than `MOST_CLASSES`, the least frequent ones share a column; a class that the first rows lack has no column, and a
   warning tells of it.

Frames of numbers alone are matrices already and are left as they are.
"""

from __future__ import annotations

import warnings
from typing import Any, Final, Literal

import numpy as np
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from runtime.dtypes import Array

MOST_CLASSES: Final = 256
"""Upper bound on the columns of one column of classes."""

Form = Literal["numbers", "dates", "classes"]


def is_mixed(rows: Any) -> bool:
    """Return True for a frame with a column that is neither of numbers nor of truth values."""
    return hasattr(rows, "columns") and any(_form(_column(rows, name), name) != "numbers" for name in rows.columns)


class FrameColumns:
    """The numbers of a frame's columns, as the first rows had them."""

    def __init__(self, rows: Any) -> None:
        """Take the columns and their classes from the first rows; raise ValueError for a column of something else."""
        self.names = list(rows.columns)
        self.forms = {name: _form(_column(rows, name), name) for name in self.names}
        self._begin = {name: self._first_day(rows, name) for name in self.names if self.forms[name] == "dates"}
        self._scaler, self._classes = (
            StandardScaler(),
            OneHotEncoder(
                handle_unknown="infrequent_if_exist", max_categories=MOST_CLASSES, sparse_output=False, dtype=np.float64
            ),
        )
        if self._named("numbers", "dates"):
            with np.errstate(invalid="ignore"):  # a column without any number has no mean
                self._scaler.fit(self._numbers(rows))
        if self._named("classes"):
            self._classes.fit(self._texts(rows))

    def matrix(self, rows: Any) -> Array:
        """Return rows as numbers [rows, columns]; raise ValueError for rows without these columns."""
        missing = [name for name in self.names if name not in getattr(rows, "columns", ())]
        if missing:
            raise ValueError(f"X has no column {missing[0]!r}; give a frame with the columns of the first rows")
        parts: list[Any] = []
        if self._named("numbers", "dates"):
            parts.append(self._scaler.transform(self._numbers(rows)))
        if self._named("classes"):
            texts = self._texts(rows)
            self._warn_of_unknown(texts)
            parts.append(self._classes.transform(texts))
        return np.hstack(parts)

    def _warn_of_unknown(self, texts: Array) -> None:
        """Warn of classes that the first rows lack, unless the least frequent ones share a column with them."""
        shared = self._classes.infrequent_categories_
        for name, column, known, rest in zip(
            self._named("classes"), texts.T, self._classes.categories_, shared, strict=True
        ):
            classes = {*column.tolist()}
            unknown = sorted(classes.difference(known.tolist()))
            if unknown and rest is None:
                warnings.warn(
                    f"the column {name!r} has {len(unknown)} of {len(classes)} classes that the first rows "
                    f"lack, the first is {unknown[0]!r}; the network sees none in their rows",
                    UserWarning,
                    stacklevel=7,
                )

    def _named(self, *forms: Form) -> list[Any]:
        return [name for name in self.names if self.forms[name] in forms]

    def _numbers(self, rows: Any) -> Array:
        return np.stack([self._number(_column(rows, name), name) for name in self._named("numbers", "dates")], axis=1)

    def _number(self, column: Array, name: Any) -> Array:
        if self.forms[name] == "dates":
            return _days(column, name) - self._begin[name]
        try:
            return column.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"the column {name!r} has numbers in the first rows, and no number here") from None

    def _texts(self, rows: Any) -> Array:
        columns = [_column(rows, name) for name in self._named("classes")]
        texts = np.empty((len(columns[0]), len(columns)), object)
        for number, column in enumerate(columns):
            texts[:, number] = ["" if _is_missing(value) else str(value) for value in column]
        return texts

    @staticmethod
    def _first_day(rows: Any, name: Any) -> float:
        days = _days(_column(rows, name), name)
        return float(np.nanmin(days)) if np.isfinite(days).any() else 0.0


def _column(rows: Any, name: Any) -> Array:
    """Return a column as NumPy has it: numbers with NaN for missing ones, dates, or objects."""
    column = np.asarray(rows[name])
    if column.dtype.kind != "O":
        return column
    known = [value for value in column if not _is_missing(value)]
    if known and all(isinstance(value, bool | np.bool_ | int | float | np.number) for value in known):
        return np.array([np.nan if _is_missing(value) else float(value) for value in column])
    if known and all(hasattr(value, "year") and hasattr(value, "month") for value in known):
        return np.array([np.datetime64("NaT") if _is_missing(x) else _moment(x) for x in column], "datetime64[us]")
    return column


def _moment(value: Any) -> np.datetime64:
    """Return a date or a time of Python without its time zone."""
    return np.datetime64(value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value, "us")


def _form(column: Array, name: Any) -> Form:
    if column.dtype.kind in "biuf":
        return "numbers"
    if column.dtype.kind == "M":
        return "dates"
    if column.dtype.kind in "OUST":
        odd = next((x for x in column if not _is_missing(x) and not isinstance(x, str | bool | int | float)), None)
        if odd is not None:
            raise ValueError(f"the column {name!r} has {type(odd).__name__}, and not numbers, dates or classes")
        return "classes"
    raise ValueError(f"the column {name!r} has {column.dtype}, and not numbers, dates or classes")


def _days(column: Array, name: Any) -> Array:
    if column.dtype.kind != "M":
        raise ValueError(f"the column {name!r} has dates in the first rows, and none here")
    moments = column.astype("datetime64[us]").astype(np.float64)
    return np.where(np.isnat(column), np.nan, moments / 86_400e6)


def _is_missing(value: object) -> bool:
    return value is None or value != value or type(value).__name__ in ("NAType", "NaTType")

"""Values of Python as columns: frames of pandas, mappings of lists and arrays, and lists of values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from datetime import date, time
from decimal import Decimal
from typing import Any, Final, cast

import numpy as np

from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.rows.encoding.values import texts_of

_TEXTS: Final = (str, bool, int, float, date, time, Decimal)
"""Types of values that are a text, or a number in digits."""


def frame_columns(frame: Any) -> dict[str, Array]:
    """Return the columns of a frame of pandas, without its index."""
    found: dict[str, Array] = {}
    for at, name in enumerate(frame.columns):
        if str(name) in found:
            raise DataError(f"the frame has two columns {str(name)!r}")
        series = frame.iloc[:, at]
        array = np.asarray(series.to_numpy())
        plain = array.ndim == 1 and array.dtype.kind in "iuf"
        values = series.astype(object).where(~series.isna(), None)
        found[str(name)] = array if plain else as_column(values.tolist())
    return found


def levels_of(frame: Any) -> dict[str, tuple[str, ...]]:
    """Return all categories, in their order, of each categorical column."""
    found: dict[str, tuple[str, ...]] = {}
    for name, dtype in frame.dtypes.items():
        if hasattr(dtype, "categories") and hasattr(dtype, "ordered"):
            values = as_column(list(dtype.categories))
            found[str(name)] = tuple(texts_of(values).tolist())
    return found


def as_column(values: list[Any]) -> Array:
    """Return values as an array of numbers with NaN for missing, of texts with "" for missing, or of lists.

    Values that no row can have are kept, for the caller to refuse.
    """
    values = [_plain(value) for value in values]
    there = [value for value in values if value is not None]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in there):
        return _numbers(values, there)
    found = np.empty(len(values), object)
    found[:] = ["" if value is None else str(value) if isinstance(value, _TEXTS) else value for value in values]
    return found


def _numbers(values: list[Any], there: list[Any]) -> Array:
    whole = len(there) == len(values) and all(isinstance(value, int) for value in there)
    if whole and all(-(1 << 63) <= value < 1 << 63 for value in there):
        return np.array(values, np.int64)
    if not any(isinstance(value, int) and not -(1 << 53) <= value <= 1 << 53 for value in there):
        return np.array([np.nan if value is None else value for value in values], np.float64)
    found = np.empty(len(values), object)  # float64 does not hold all integers; the encoder names the row
    found[:] = ["" if value is None else str(value) for value in values]
    return found


def _plain(value: Any) -> Any:
    """Return a Python value for one of NumPy or pyarrow, and a list for a sequence."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]: of any dtype
    return [_plain(element) for element in value] if isinstance(value, tuple | list) else value  # pyright: ignore[reportUnknownVariableType]: likewise


def as_columns(source: Mapping[Any, object]) -> dict[str, Array]:
    """Return lists and arrays of a mapping as columns; those of one axis as columns of a table."""
    found: dict[str, Array] = {}
    for key, values in source.items():
        if not _is_column(values):
            raise DataError(f"{str(key)!r} is of type {type(values).__name__}; a column is a list or an array")
        array = _array(values)
        plain = array is not None and array.ndim != 0 and (array.dtype.kind in "iufb" or array.ndim != 1)
        found[str(key)] = array if array is not None and plain else as_column(list(cast(Iterable[Any], values)))
    return found


def _is_column(values: object) -> bool:
    if isinstance(values, str | bytes | Mapping | Set):
        return False
    return hasattr(values, "__len__") and not hasattr(values, "columns")


def _array(values: object) -> Array | None:
    """Return an array, or None for rows of unequal length."""
    try:
        return np.asarray(values)
    except ValueError:
        return None

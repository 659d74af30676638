"""Rows that are lists of unequal length: of numbers, or of words."""

from __future__ import annotations

from typing import Any

import numpy as np

from runtime.dtypes import Array
from runtime.rows.encoding.row_errors import RowError
from runtime.rows.encoding.values import shown


def is_listed(raw: Array) -> bool:
    """Return True if rows are lists, whose lengths may differ."""
    return raw.dtype.kind == "O" and list in set(map(type, raw.tolist()))


def as_lists(raw: Array) -> Array:
    """Return rows of several values each, such as texts [rows, 2], as lists; other rows as they are."""
    if raw.ndim < 2:
        return raw
    found = np.empty(len(raw), object)
    found[:] = raw.tolist()
    return found


def lists_of(name: str, raw: Array) -> list[list[Any]]:
    """Return rows as lists; raise DataError, which names the row, for a row that is no list."""
    rows: list[Any] = raw.tolist()
    for row, value in enumerate(rows):
        if not isinstance(value, list):
            what = f"is {shown(value)}, and its rows are lists" if value not in ("", None) else "has no value"
            raise RowError(row, name, f"{what}")
    return rows


def elements_of(name: str, rows: list[list[Any]], *, whole: bool) -> Array:
    """Return the concatenated numbers of all lists, int64 or float64.

    Raises DataError, which names the row, for an element that is no such number.
    """
    for row, elements in enumerate(rows):
        for element in elements:
            if not _is_number(element, whole=whole):
                what = "whole number of int64" if whole else "finite number"
                raise RowError(row, name, f"has {shown(element)} in its list, which is no {what}")
    return np.array([element for row in rows for element in row], np.int64 if whole else np.float64)


def _is_number(element: object, *, whole: bool) -> bool:
    if isinstance(element, bool) or not isinstance(element, int | float):
        return False
    if whole:
        return float(element).is_integer() and -(1 << 63) <= element < 1 << 63
    return abs(element) <= float(np.finfo(np.float64).max)  # False for NaN

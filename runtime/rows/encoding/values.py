"""Values as people write them: texts, numbers, and what stands for none.

Columns of values are NumPy arrays of numbers in which NaN is missing, or of texts in which "" is, or of lists.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from runtime.dtypes import Array
from runtime.errors import DataError

MISSING: Final = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"})
"""Texts that stand for no value."""


def texts_of(raw: Array) -> Array:
    """Values as texts, "" where one is missing; whole numbers without a point."""
    if raw.dtype.kind == "f":
        return np.array(["" if value != value else _text(value) for value in raw.tolist()], object)
    if raw.dtype.kind == "O":
        return np.array(["" if text in MISSING else text for text in raw.tolist()], object)
    return np.array([str(value) for value in raw.tolist()], object)


def numbers_of(name: str, raw: Array) -> Array:
    """Values as float64, NaN where one is missing. Raises DataError, which names the row, for what is no number."""
    if raw.dtype.kind != "O":
        return raw.astype(np.float64)
    numbers = np.empty(len(raw))
    for row, text in enumerate(raw.tolist()):
        try:
            numbers[row] = np.nan if text in MISSING else float(text)
        except ValueError:
            raise DataError(f"row {row} of {name!r} is {text!r}, which is no number") from None
        if np.isinf(numbers[row]):
            raise DataError(f"row {row} of {name!r} is {text!r}, which is not finite")
    return numbers


def whole_numbers_of(name: str, raw: Array, fill: float | None) -> Array:
    """Values as int64, each exactly, `fill` where one is missing. Raises DataError, which names the row, for others."""
    if raw.dtype.kind in "iub" and not raw.size:
        return raw.astype(np.int64)
    found = np.empty(len(raw), np.int64)
    for row, value in enumerate(raw.tolist()):
        found[row] = _whole(name, row, fill if value in MISSING or value != value else value)
    return found


def _whole(name: str, row: int, value: Any) -> int:
    try:
        number = int(value) if not isinstance(value, float) else value
    except (TypeError, ValueError):
        number = float(numbers_of(name, np.array([value], object))[0]) if isinstance(value, str) else value
    if number is None:
        raise DataError(f"row {row} of {name!r} has no value")
    if isinstance(number, float):
        if not number.is_integer():
            raise DataError(f"row {row} of {name!r} is {number}, which is no whole number")
        number = int(number)
    if not -(1 << 63) <= number < 1 << 63:
        raise DataError(f"row {row} of {name!r} is {number}, which int64 does not hold")
    return number


def _text(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(value)

"""Values as they appear in tables: texts, numbers, and missing values.

Columns of values are NumPy arrays of numbers in which NaN is missing, of booleans, of texts in which "" is missing, or
of lists. Every source makes such columns by `spelled`, so that equal values are equal texts.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, Final, cast

import numpy as np

from prograd_proto.wording import as_asked
from runtime.dtypes import Array
from runtime.rows.encoding.row_errors import RowError

MISSING: Final = frozenset(
    {"", "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "NaT"}
    | {"null", "NULL", "None", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"}
)
"""Texts that stand for a missing value: those of pandas, and NaT."""

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
"""Types of values that every row may have."""

_SHOWN: Final = 40
"""Upper bound on the characters of a value in an error."""


def is_no_value(value: object) -> bool:
    """Return True if a value stands for a missing one; blanks around a text do not count."""
    return value is None or (isinstance(value, str) and value.strip() in MISSING)


def spelled(value: object) -> Any:
    """Return the text of a value that is a number, a boolean, a date or missing (""); any other value as it is."""
    if value is None or (isinstance(value, float | date) and value != value):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, date):
        return date_text(value)
    return str(value) if isinstance(value, int | time | Decimal) else value


def number_text(value: float) -> str:
    """Return a number as text: a whole one without a point, any other as Python writes it."""
    return str(int(value)) if value.is_integer() else repr(value)


def date_text(value: date) -> str:
    """Return a date in ISO 8601: in UTC if it has a zone, and without the time if that is midnight in no zone."""
    if not isinstance(value, datetime):
        return value.isoformat()
    if value.tzinfo is not None:
        with suppress(OverflowError):  # the first and the last day of the calendar
            value = value.astimezone(UTC)
        return value.isoformat()
    return value.isoformat().removesuffix("T00:00:00")


def no_value(name: str) -> str:
    """Return the end of an error about a row without a value in a column of this name."""
    how = as_asked(f"--missing {name}=", f"missing={{{name!r}: …}}")
    return f"has no value; fill it in, or pack the training rows with {how}"


def require_values(name: str, raw: Array) -> None:
    """Raise DataError, which names the row, for bytes, mappings, lists of lists and other objects."""
    values: list[Any] = raw.tolist() if raw.dtype.kind == "O" else []
    if set(map(type, values)) <= _PLAIN:
        return
    for row, value in enumerate(values):
        elements = cast(list[Any], value if isinstance(value, list) else [value])
        if not all(isinstance(element, str | int | float | None) for element in elements):
            odd = next(element for element in elements if not isinstance(element, str | int | float | None))
            what = "a list of lists" if isinstance(odd, list) else f"of type {type(odd).__name__}"
            what = what if odd is value or isinstance(odd, list) else f"a list of what is {what}"
            how = as_asked(f"--drop {name}", f"drop=[{name!r}]")
            raise RowError(row, name, f"is {what}, which no row can be; leave the column out by {how}")


def shown(value: object) -> str:
    """Return a value for an error, of bounded length."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def number_in(text: str) -> float:
    """Return the number that a text denotes, without underscores between digits; raise ValueError for another text."""
    if "_" in text:
        raise ValueError(text)
    return float(text)


def is_number_text(text: str) -> bool:
    """Return True if a text denotes a number; see `number_in`."""
    try:
        number_in(text)
    except (TypeError, ValueError):
        return False
    return True


def texts_of(raw: Array) -> Array:
    """Return values as texts, "" where one is missing; whole numbers without a point."""
    if raw.dtype.kind == "O":
        values: list[Any] = raw.tolist()
        if set(map(type, values)) == {str}:
            return mapped(values, lambda text: "" if is_no_value(text) else text)
        return np.array(["" if is_no_value(text) else text for text in values], object)
    if raw.dtype.kind == "f" and raw.dtype.itemsize < 8:
        raw = raw.astype(np.str_).astype(np.float64)  # 0.1 of float32 is 0.1, not 0.10000000149
    return mapped(raw.tolist(), spelled)


def mapped(values: list[Any], function: Callable[[Any], str]) -> Array:
    """Return the texts that a function gives for values, each of which it is asked for once."""
    known = {value: function(value) for value in set(values)}
    return np.array([known[value] for value in values], object)


def numbers_of(name: str, raw: Array) -> Array:
    """Return values as float64, NaN where one is missing; raise DataError, which names the row, for other values."""
    raw = texts_of(raw) if raw.dtype.kind == "b" else raw
    if raw.dtype.kind != "O":
        numbers = raw.astype(np.float64)
    elif (at_once := _numbers_at_once(raw.tolist())) is not None:
        numbers = at_once
    else:
        numbers = np.empty(len(raw))
        for row, text in enumerate(raw.tolist()):
            numbers[row] = np.nan if is_no_value(text) else _number(name, row, text)
    if np.isinf(numbers).any():
        row = int(np.isinf(numbers).argmax())
        value = numbers[row].item() if raw.dtype.kind != "O" else raw[row]
        raise RowError(row, name, f"is {shown(value)}, which is not finite")
    return numbers


def with_points(name: str, raw: Array) -> Array:
    """Return texts of numbers with decimal commas as texts with points; raise DataError for a text with a point."""
    if raw.dtype.kind != "O":
        return raw
    found = np.empty(len(raw), object)
    for row, text in enumerate(raw.tolist()):
        if isinstance(text, str) and "." in text:
            raise RowError(row, name, f"is {shown(text)}; its numbers have decimal commas and no points")
        found[row] = text.replace(",", ".") if isinstance(text, str) else text
    return found


def _numbers_at_once(texts: list[Any]) -> Array | None:
    """Return the numbers of texts that are all numbers; None for other values, which take longer."""
    try:
        if "_" in "".join(texts):
            return None
        return np.fromiter(map(float, texts), np.float64, len(texts))
    except (TypeError, ValueError):
        return None


def whole_numbers_of(name: str, raw: Array, fill: float | None) -> Array:
    """Return values as exact int64, `fill` where one is missing; raise DataError, which names the row, for others."""
    raw = texts_of(raw) if raw.dtype.kind == "b" else raw
    found = np.empty(len(raw), np.int64)
    for row, value in enumerate(raw.tolist()):
        found[row] = _whole(name, row, fill if is_no_value(value) or value != value else value)
    return found


def _whole(name: str, row: int, value: Any) -> int:
    try:
        number = value if isinstance(value, float) else _digits(value)
    except (TypeError, ValueError):
        number = _number(name, row, value) if isinstance(value, str) else value
    if number is None:
        raise RowError(row, name, no_value(name))
    if isinstance(number, float):
        if number in (np.inf, -np.inf):
            raise RowError(row, name, f"is {shown(value)}, which is not finite")
        exact = _exact(value if isinstance(value, str) else number)
        if exact is None or exact != exact.to_integral_value():
            raise RowError(row, name, f"is {shown(number)}, which is no whole number")
        number = int(exact)
    if not -(1 << 63) <= number < 1 << 63:
        raise RowError(row, name, f"is {shown(value)}, which int64 does not hold")
    return number


def _exact(value: str | float) -> Decimal | None:
    """Return a number without rounding; None for a text whose exponent is out of all bounds."""
    try:
        return Decimal(value)
    except InvalidOperation:
        return None


def _number(name: str, row: int, text: Any) -> float:
    try:
        return number_in(text)
    except ValueError:
        raise RowError(row, name, f"is {shown(text)}, which is no number; write one, as in 3.5") from None


def _digits(value: Any) -> int:
    if isinstance(value, str) and "_" in value:
        raise ValueError(value)
    return int(value)

"""Dates and times as numbers: their parts, days since the first one, and positions on circles.

A position in a cycle is two numbers, sine and cosine, so that its end lies beside its beginning.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import numpy as np

from prograd_proto.wording import as_asked
from runtime.dtypes import Array
from runtime.rows.encoding.row_errors import RowError
from runtime.rows.encoding.values import is_no_value, no_value, shown

NUMBERS: Final = ("days", "year", "month", "day", "weekday", "hour", "minute")
"""Parts that are one number; Monday is 0, and `days` counts from a first day, with fractions."""

CYCLES: Final = ("year_cycle", "month_cycle", "week_cycle", "day_cycle")
"""Parts that are two numbers."""

PARTS: Final = (*NUMBERS, *CYCLES)

DEFAULT_PARTS: Final = ("days", "year_cycle", "week_cycle")

MAX_FORMAT_CHARACTERS: Final = 200
"""Upper bound on the characters of a format of dates."""

_DAY: Final = 86_400.0
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\d")
_EPOCH: Final = datetime(1970, 1, 1)


def width_of(parts: tuple[str, ...]) -> int:
    """Return the number of floats of these parts."""
    return sum(2 if part in CYCLES else 1 for part in parts)


def is_date_format(form: str) -> bool:
    """Return True if `strptime` reads dates by a format, or it is "" for ISO 8601."""
    try:
        datetime.strptime(_EPOCH.strftime(form), form)
    except (ValueError, re.error):  # re.error: a directive occurs twice
        return False
    return len(form) <= MAX_FORMAT_CHARACTERS


class Dates(NamedTuple):
    """Dates as float64 days since 1970 with fractions, and whether they have zones; None if all are missing."""

    days: Array
    zoned: bool | None


def dates_of(name: str, raw: Array, form: str, fill: str | None) -> Dates:
    """Return dates as days since 1970. Dates with a zone are converted to UTC.

    Args:
        name: name of the column, for errors.
        raw: its values.
        form: format of `strptime`, or "" for ISO 8601, as 2026-11-23 or 2026-11-23T14:05.
        fill: date in place of a missing one.

    Raises DataError, which names the row, for a missing value, another text, or a date with a zone among others.
    """
    known: dict[Any, datetime] = {}
    found = np.empty(len(raw), np.float64)
    zoned: bool | None = None
    for row, value in enumerate(raw.tolist()):
        is_missing = is_no_value(value) or value != value
        if value not in known:
            if is_missing and fill is None:
                raise RowError(row, name, no_value(name))
            known[value] = _parsed(name, row, fill if is_missing else value, form)
        date = known[value]
        if not is_missing:
            own = date.tzinfo is not None
            if zoned not in (None, own):
                raise mixed_zones(name, row, value, "the dates before it", zoned=own)
            zoned = own
        found[row] = _days(date)
    return Dates(found, zoned)


def mixed_zones(name: str, row: int, value: object, others: str, *, zoned: bool) -> RowError:
    """Return the error about a date that has a zone, or none, where others differ."""
    what = "it has a zone" if zoned else "it has no zone"
    return RowError(row, name, f"is {shown(value)}; {what}, and {others} differ; write all dates alike")


def features(days: Array, parts: tuple[str, ...], origin: float) -> Array:
    """Return float64 [rows, width] for dates as days since 1970; `days` counts from `origin`."""
    whole = np.floor(days)
    dates = whole.astype(np.int64).astype("datetime64[D]")
    months, years = dates.astype("datetime64[M]"), dates.astype("datetime64[Y]")
    hours = (days - whole) * 24
    in_month = (dates - months).astype(np.float64)
    in_year = (dates - years).astype(np.float64)
    month_days, year_days = _lengths(months), _lengths(years)
    minutes = np.floor(hours * 60 + 1e-6)  # days are rounded to microseconds
    simple = {
        "days": days - origin,
        "year": years.astype(np.int64) + 1970.0,
        "month": months.astype(np.int64) % 12 + 1.0,
        "day": in_month + 1,
        "weekday": (whole + 3) % 7,  # 1970 began on a Thursday
        "hour": np.floor(minutes / 60),
        "minute": minutes % 60,
    }
    part_of_day = hours / 24
    turns = {
        "year_cycle": (in_year + part_of_day) / year_days,
        "month_cycle": (in_month + part_of_day) / month_days,
        "week_cycle": ((whole + 3) % 7 + part_of_day) / 7,
        "day_cycle": part_of_day,
    }
    columns: list[Array] = []
    for part in parts:
        if part in simple:
            columns.append(simple[part])
        else:
            angle = 2 * np.pi * turns[part]
            columns += [np.sin(angle), np.cos(angle)]
    return np.stack(columns, axis=1)


def _parsed(name: str, row: int, value: Any, form: str) -> datetime:
    text = value.strip() if isinstance(value, str) else value
    try:
        return _of_form(text, form) or datetime.fromisoformat(text)
    except (TypeError, ValueError):
        like = f"a date like {datetime(2026, 11, 23, 14, 5).strftime(form)}" if form else "a date like 2026-11-23"
        how = f"write it so, or pack with {as_asked('--date-format', 'date_format=')}"
        raise RowError(row, name, f"is {shown(value)}, which is not {like}; {how}") from None


def _of_form(text: str, form: str) -> datetime | None:
    """Return the date of a text in this form; None without a form, as frames spell dates in ISO 8601."""
    try:
        return datetime.strptime(text, form) if form else None
    except ValueError:
        if _ISO.match(text):
            return None
        raise


def _days(date: datetime) -> float:
    with suppress(OverflowError):  # the first and the last day of the calendar
        date = date.astimezone(UTC) if date.tzinfo is not None else date
    return (date.replace(tzinfo=None) - _EPOCH).total_seconds() / _DAY


def _lengths(starts: Array) -> Array:
    """Return the numbers of days of months or years; NumPy 2.5 warns of adding a bare 1, which has no unit."""
    ends = starts + np.ones((), starts.dtype.str.replace("M8", "m8"))
    return (ends.astype("datetime64[D]") - starts.astype("datetime64[D]")).astype(np.float64)

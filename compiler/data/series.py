"""Windows of consecutive rows of a table: their options, and their splits in the order of the rows or by series."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from compiler.data.options import PackOptions
from compiler.data.splits import split_rows
from runtime.dtypes import Array
from runtime.errors import UsageError
from runtime.rows.encoding.row_errors import RowError
from runtime.rows.encoding.series import Series


class Windows(NamedTuple):
    """The windows that are packed.

    Attributes:
        kept: the numbers of the packed windows, among all windows at a stride of 1.
        splits: numbers of windows, among the packed ones, by split.
        training: rows of the windows of the first split.
    """

    kept: Array
    splits: dict[str, Array]
    training: Array


def series_of(options: PackOptions, names: Iterable[str]) -> Series:
    """Return the windows that the options ask for of columns; raise UsageError for splits that windows cannot have."""
    if options.by == "stratified":
        raise UsageError(
            f"by={options.by}: windows are split in the order of their rows, or by group, in series that no window "
            "leaves; leave it out"
        )
    known = tuple(name for name in names if name in options.names["known"])
    group = options.of if options.by == "group" and options.of else ""
    return Series(options.window or 1, options.stride or 1, options.target or "", tuple(options.ahead), group, known)


def split_windows(options: PackOptions, series: Series, rows: int, values: Array | None) -> Windows:
    """Return the windows to pack, and those of each split.

    Windows are split in the order of their rows, the earliest first: every target of a later split comes after those
    of the earlier ones. Windows of a later split may begin with rows of an earlier one, which are past by then. Windows
    of several series are split by the series.

    Args:
        options: see `PackOptions`.
        series: windows to make.
        rows: number of rows.
        values: times, which rise, or numbers of series; None for neither.

    Raises UsageError for a split without windows, DataError for a table without any, or times that fall.
    """
    if series.group:
        return _of_groups(options, series, rows, values)
    if values is not None:
        _require_rising(options.of or "", values)
    last = series.needed(targets=bool(series.target)) - 1
    starts = series.starts(rows, None, targets=bool(series.target))[:: series.stride]
    if not options.split:
        return Windows(starts, {}, np.arange(rows))
    stops = [round(share * len(starts)) for share in accumulate(options.split.values())]
    begins = [0, *stops[:-1]]
    splits = {name: np.arange(*span) for name, span in zip(options.split, zip(begins, stops, strict=True), strict=True)}
    _require_windows(options, splits, len(starts))
    first = next(iter(splits.values()))
    return Windows(starts, splits, np.arange(int(starts[first[-1]]) + last + 1))


def _of_groups(options: PackOptions, series: Series, rows: int, groups: Array | None) -> Windows:
    """Return the windows of several series, each of which is in one split as a whole."""
    assert groups is not None, "the column of the series is asked for before"
    starts = series.starts(rows, groups, targets=bool(series.target))
    _, firsts, inverse = np.unique(groups[starts], return_index=True, return_inverse=True)
    kept = np.flatnonzero((starts - starts[firsts][inverse]) % series.stride == 0)
    of_rows = split_rows(options.split, rows, "group", groups, options.seed)
    splits = {name: np.flatnonzero(np.isin(starts[kept], members)) for name, members in of_rows.items()}
    _require_windows(options, splits, len(kept))
    return Windows(kept, splits, next(iter(of_rows.values()), np.arange(rows)))


def _require_windows(options: PackOptions, splits: dict[str, Array], count: int) -> None:
    for name, numbers in splits.items():
        if not len(numbers):
            raise UsageError(f"split {name}={options.split[name]}: of {count} windows that is none")


def _require_rising(name: str, times: Array) -> None:
    """Raise DataError, which names the row, for a time before that of the row above."""
    falls = np.flatnonzero(times[1:] < times[:-1])
    if len(falls):
        what = f"is before {name!r} of the row above it, and windows take rows in their order"
        raise RowError(int(falls[0]) + 1, name, f"{what}; sort the table by {name!r}")


def require_no_gap(name: str, stay: Array) -> None:
    """Raise DataError, which names the row, if a row is dropped between others, because windows would go across it."""
    inside = np.flatnonzero(stay)
    gone = np.flatnonzero(~stay)
    gone = gone[(gone > inside[0]) & (gone < inside[-1])] if len(inside) else gone[:0]
    if len(gone):
        row = int(gone[0])
        what = "has no value, and without its row windows would join the rows around it"
        raise RowError(row, name, f"{what}; fill it in, or give {name!r} another replacement than drop")

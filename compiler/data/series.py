"""Windows of consecutive rows of a table: their options, and their splits in the order of the rows."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from compiler.data.options import PackOptions
from runtime.dtypes import Array
from runtime.errors import UsageError
from runtime.rows.encoding.series import Series


def series_of(options: PackOptions, rows: int) -> Series:
    """Return the windows that the options ask for; raise UsageError or DataError if there are none."""
    series = Series(options.window or 1, options.stride or 1, options.target or "", options.ahead)
    if options.by not in ("random", "time"):
        raise UsageError(f"by={options.by}: windows are split in the order of their rows; leave it out")
    series.count(rows, targets=bool(series.target))
    return series


def split_windows(options: PackOptions, series: Series, rows: int) -> tuple[dict[str, Array], Array]:
    """Return the numbers of the windows of each split, and those of the rows that the windows of the first one have.

    Windows are split in the order of their rows, the earliest first: every target of a later split comes after those
    of the earlier ones. Windows of a later split may begin with rows of an earlier one, which are past by then.
    """
    last = series.length - 1 + (series.ahead if series.target else 0)
    starts = np.arange(0, series.count(rows, targets=bool(series.target)), series.stride)
    if not options.split:
        return {}, np.arange(rows)
    stops = [round(share * len(starts)) for share in accumulate(options.split.values())]
    found: dict[str, Array] = {}
    begin = 0
    for name, stop in zip(options.split, stops, strict=True):
        numbers = np.arange(begin, stop)
        if not len(numbers):
            raise UsageError(f"split {name}={options.split[name]}: of {len(starts)} windows that is none")
        found[name] = numbers
        begin = stop
    first = next(iter(found.values()))
    return found, np.arange(int(starts[first[-1]]) + last + 1)

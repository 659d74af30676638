"""The one cast that rows go through unasked: float64, which tables hold, for feeds that are float32."""

from __future__ import annotations

import logging

import numpy as np

from runtime.dtypes import Array
from runtime.errors import DataError

_log = logging.getLogger("prograd")


def is_cast(found: str, wanted: str) -> bool:
    """Whether rows of one dtype feed another."""
    return found == "float64" and wanted == "float32"


def say_cast(what: str) -> None:
    """Say on the log that rows of float64 are rounded."""
    _log.info("%s is float64 and is rounded to float32, which the feed takes", what)


def cast_rows(name: str, rows: Array, out: Array, numbers: Array | None = None) -> None:
    """Round rows to the dtype of `out`; raises DataError for a finite number that it does not hold."""
    with np.errstate(all="ignore"):
        np.copyto(out, rows, casting="same_kind")
    if out.dtype == rows.dtype:
        return
    lost = np.isinf(out) & np.isfinite(rows)
    if lost.any():
        at = np.unravel_index(int(lost.argmax()), lost.shape)
        row = at[0] if numbers is None else numbers[at[0]]
        raise DataError(f"row {row} of {name!r} has {rows[at]}, which {out.dtype} does not hold")

"""The implicit casts of rows: float64, which tables hold, to float32, and integers to wider ones; masks are refused."""

from __future__ import annotations

import logging
from typing import Any, Final, cast

import numpy as np

from prograd_proto.dtypes import INTEGERS
from runtime.dtypes import Array
from runtime.errors import DataError

_BLOCK: Final = 1 << 18
"""Number of elements that are cast at a time, in memory outside the account."""

_log = logging.getLogger("prograd")


_INTEGERS: Final = frozenset({"int8", "int16", "int32", "uint8", "uint16", "uint32"})


def is_cast(found: str, wanted: str) -> bool:
    """Return True if rows of one dtype feed another: float64 feeds float32, integers a dtype that holds all of them."""
    if found == "float64":
        return wanted == "float32"
    return found in _INTEGERS and wanted in INTEGERS and np.can_cast(found, wanted, "safe")


def say_cast(what: str, found: str) -> None:
    """Log that rows of the dtype `found` are rounded, if it is float64; other casts lose nothing."""
    if found == "float64":
        _log.info("%s is float64 and is rounded to float32, which the feed takes", what)


def cast_rows(name: str, rows: Array, out: Array, numbers: Array | None = None) -> None:
    """Round rows to the dtype of `out`; raises DataError for a finite number that it does not hold."""
    step = max(1, _BLOCK * len(rows) // max(1, rows.size))
    for start in range(0, len(rows), step):
        here = slice(start, start + step)
        _cast_block(name, rows[here], out[here], start if numbers is None else numbers[here])


def _cast_block(name: str, rows: Array, out: Array, numbers: int | Array) -> None:
    """Cast a few rows as `cast_rows` does; `numbers` are theirs, or that of the first."""
    with np.errstate(all="ignore"):
        np.copyto(out, rows, casting="same_kind")
    if out.dtype == rows.dtype or rows.dtype.kind in "iu":
        return
    lost = np.isinf(out) & np.isfinite(rows)
    if lost.any():
        at = np.unravel_index(int(lost.argmax()), lost.shape)
        row = numbers + int(at[0]) if isinstance(numbers, int) else numbers[at[0]]
        raise DataError(f"row {row} of {name!r} has {rows[at]}, which {out.dtype} does not hold")


def require_unmasked(name: str, values: object) -> None:
    """Raise DataError for an array of NumPy with masked elements, which no array of rows can have."""
    mask = getattr(cast(Any, values), "mask", None) if isinstance(values, np.ndarray) else None
    if mask is not None and np.any(mask):
        raise DataError(f"{name!r} has masked elements; fill them in, or leave the rows out")

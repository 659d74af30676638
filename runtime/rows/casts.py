"""The implicit casts of rows: float64, which tables hold, to float32, and numbers to dtypes that hold them exactly."""

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


_SOURCES: Final = frozenset({*INTEGERS, "uint16", "uint32", "uint64", "int8", "int16", "bool", "float16", "float32"})
"""Dtypes whose numbers other dtypes may hold."""


def is_cast(found: str, wanted: str) -> bool:
    """Return True if rows of one dtype may feed another.

    float64 feeds float32, and is rounded. Other numbers feed floats of at least 32 bits, and integers and bools feed
    integers; `cast_rows` refuses a number that the dtype does not hold exactly.
    """
    if found == "float64":
        return wanted == "float32"
    if wanted in ("float32", "float64"):
        return found in _SOURCES
    return wanted in INTEGERS and found in _SOURCES and not found.startswith("float")


def say_cast(what: str, found: str) -> None:
    """Log that rows of the dtype `found` are rounded, if it is float64; other casts lose nothing."""
    if found == "float64":
        _log.info("%s is float64 and is rounded to float32, which the feed takes", what)


def cast_rows(name: str, rows: Array, out: Array, numbers: Array | None = None) -> None:
    """Cast rows to the dtype of `out`; raise DataError for a finite number that it does not hold.

    Only float64 is rounded; any other number has to be held exactly.
    """
    step = max(1, _BLOCK * len(rows) // max(1, rows.size))
    for start in range(0, len(rows), step):
        here = slice(start, start + step)
        _cast_block(name, rows[here], out[here], start if numbers is None else numbers[here])


def _cast_block(name: str, rows: Array, out: Array, numbers: int | Array) -> None:
    """Cast a few rows as `cast_rows` does; `numbers` are theirs, or that of the first."""
    with np.errstate(all="ignore"):
        np.copyto(out, rows, casting="unsafe")
    if np.can_cast(rows.dtype, out.dtype, "safe") and not (rows.dtype.itemsize == 8 and rows.dtype.kind in "iu"):
        return  # NumPy also calls 64-bit integers safe in float64
    lost = np.isinf(out) & np.isfinite(rows) if rows.dtype.kind == "f" else _differ(out, rows)
    if lost.any():
        at = np.unravel_index(int(lost.argmax()), lost.shape)
        row = numbers + int(at[0]) if isinstance(numbers, int) else numbers[at[0]]
        raise DataError(f"row {row} of {name!r} has {rows[at]}, which {out.dtype} does not hold")


def _differ(out: Array, rows: Array) -> Array:
    """Return True where integers have changed: also those that only one of the two dtypes has."""
    with np.errstate(all="ignore"):
        return (out.astype(rows.dtype) != rows) | ((out < 0) != (rows < 0))


def require_unmasked(name: str, values: object) -> None:
    """Raise DataError for an array of NumPy with masked elements, which no array of rows can have."""
    mask = getattr(cast(Any, values), "mask", None) if isinstance(values, np.ndarray) else None
    if mask is not None and np.any(mask):
        raise DataError(f"{name!r} has masked elements; fill them in, or leave the rows out")

"""Rows of each split: disjoint, and the same for the same seed on every machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import accumulate
from typing import Final

import numpy as np

from compiler.data.options import By
from runtime.dtypes import Array
from runtime.errors import UsageError
from runtime.philox import permutation
from runtime.rows.encoding.row_errors import RowError
from runtime.rows.encoding.values import shown

_IN_ORDER: Final = re.compile(r"\d{4}-\d\d-\d\d($|[T ])")
"""Dates and times whose order is that of their characters."""


def split_rows(shares: Mapping[str, float], count: int, by: By, values: Array | None, seed: int) -> dict[str, Array]:
    """Return the int64 row numbers of each split, in rising order.

    Args:
        shares: fractions of the rows by name, of at most 1 together.
        count: number of all rows.
        by: the assignment of rows to splits; see `PackOptions`.
        values: values of the column that the assignment depends on, by row.
        seed: seed of the random assignment.

    Raises UsageError for invalid fractions, or a split that gets no row.
    """
    if not shares:
        return {}
    _require_sane(shares)
    match by:
        case "time":
            pieces = _cut(np.argsort(_known(values), kind="stable"), shares)
        case "stratified":
            pieces = _stratified(_known(values), shares, seed)
        case "group":
            pieces = _grouped(_known(values), shares, seed)
        case _:
            pieces = _cut(permutation(seed, 0, count), shares)
    found = {name: np.sort(rows).astype(np.int64) for name, rows in zip(shares, pieces, strict=True)}
    for name, rows in found.items():
        if not len(rows):
            raise UsageError(f"split {name}={shares[name]}: of {count} rows that is none")
    return found


def require_times(name: str, values: Array) -> None:
    """Raise DataError for a column whose values are not ordered in time."""
    texts = values.dtype.kind == "O"
    missing = values == "" if texts else np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
    if missing.any():
        raise RowError(int(missing.argmax()), name, "has no value, and splits go by it")
    for row, text in enumerate(values.tolist() if texts else ()):
        if not _IN_ORDER.match(text):
            how = "splits by time take numbers, or dates as 2024-03-01"
            raise RowError(row, name, f"is {shown(text)}; {how}")


def _require_sane(shares: Mapping[str, float]) -> None:
    for name, share in shares.items():
        if not 0 < share <= 1:
            raise UsageError(f"split {name}={share}: the fraction of the rows is above 0 and at most 1")
    if sum(shares.values()) > 1 + 1e-9:
        raise UsageError(f"the splits take {sum(shares.values()):g} of the rows together, which is more than all")


def _known(values: Array | None) -> Array:
    assert values is not None, "the column is asked for before"
    return values


def _cut(order: Array, shares: Mapping[str, float]) -> list[Array]:
    """Return the rows in this order, split by the shares; rows left by rounding go to the nearest split."""
    stops = [round(share * len(order)) for share in accumulate(shares.values())]
    return [order[start:stop] for start, stop in zip([0, *stops], stops, strict=False)]


def _stratified(values: Array, shares: Mapping[str, float], seed: int) -> list[Array]:
    """Return splits with the same shares of the rows of each value."""
    order = permutation(seed, 0, len(values))
    _, kinds = np.unique(values, return_inverse=True)
    found: list[list[Array]] = [[] for _ in shares]
    for kind in range(kinds.max(initial=-1) + 1):
        for rows, piece in zip(found, _cut(order[kinds[order] == kind], shares), strict=True):
            rows.append(piece)
    return [np.concatenate(rows) for rows in found]


def _grouped(values: Array, shares: Mapping[str, float], seed: int) -> list[Array]:
    """Return splits that keep all rows of a value together, in random order, each in the emptiest split."""
    _, groups = np.unique(values, return_inverse=True)
    sizes = np.bincount(groups)
    wanted = np.array([*shares.values(), max(0.0, 1 - sum(shares.values()))]) * len(values)
    place = np.empty(len(sizes), np.int64)
    for group in permutation(seed, 0, len(sizes)):
        place[group] = int(np.argmax(wanted))
        wanted[place[group]] -= sizes[group]
    return [np.flatnonzero(place[groups] == number) for number in range(len(shares))]

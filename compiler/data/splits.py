"""Rows of each split: disjoint, and the same for the same seed on every machine."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

import numpy as np

from compiler.data.fit import is_number
from compiler.data.options import By
from runtime.dtypes import Array
from runtime.errors import UsageError
from runtime.philox import permutation
from runtime.rows.encoding.dates import dates_of
from runtime.rows.encoding.row_errors import RowError
from runtime.rows.encoding.values import numbers_of, texts_of, whole_numbers_of


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


def times_of(name: str, raw: Array, date_format: str) -> Array:
    """Return the values of a column as numbers in the order of time: numbers, or the days of dates.

    Raises DataError, which names the row, for a missing value, one that is neither, or dates with and without zones.
    """
    missing = texts_of(raw) == ""
    if missing.any():
        raise RowError(int(missing.argmax()), name, "has no value, and splits go by it")
    if not is_number(raw):
        return dates_of(name, raw, date_format, None).days
    if raw.dtype.kind != "O":
        return raw
    try:
        return whole_numbers_of(name, raw, None)  # exactly
    except RowError:
        return numbers_of(name, raw)


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

"""Few rows as objects, encoded value by value: for one row this is much faster than by columns.

It knows the ordinary values of ordinary columns: numbers for numbers, texts that are classes, also one-hot, and dates.
Anything else is left to the encoding by columns, which has the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.rows.encoding.column import Column
from runtime.rows.encoding.encoding import Encoding

MAX_ROWS: Final = 16
"""Upper bound on the rows that are encoded value by value."""

MAX_DATES: Final = 4096
"""Upper bound on the dates of a column that are kept encoded."""

_LARGEST: Final = float(np.finfo(np.float32).max)

Encode = Callable[[Any], Sequence[float]]


class Unusual(Exception):
    """A value that only the encoding by columns knows."""


class SingleRows:
    """The encoding of rows, for arrays by feed that are made of ordinary columns."""

    def __init__(self, encoding: Encoding, keys: Mapping[str, str]) -> None:
        """Prepare the arrays of these keys by feed."""
        self._feeds = {feed: _makers(encoding, key) for feed, key in keys.items()}
        self._vectors = {
            feed
            for feed, key in keys.items()
            if key in encoding.joined or any(column.is_vector for column in encoding.members(key))
        }
        self._knows = encoding.series is None and all(makers is not None for makers in self._feeds.values())

    def feeds(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Array] | None:
        """Return the feeds for rows; None if the encoding by columns has to do it."""
        if not self._knows or len(rows) > MAX_ROWS:
            return None
        try:
            return {feed: self._array(feed, makers, rows) for feed, makers in self._feeds.items() if makers}
        except (KeyError, Unusual):
            return None

    def _array(self, feed: str, makers: list[tuple[str, Encode, Any]], rows: Sequence[Mapping[str, Any]]) -> Array:
        values = [[number for name, encode, _ in makers for number in encode(row[name])] for row in rows]
        return np.array(values if feed in self._vectors else [row[0] for row in values], makers[0][2])


def _makers(encoding: Encoding, key: str) -> list[tuple[str, Encode, Any]] | None:
    """Return for each column of an array its name, its encoding and its dtype; None if one is not ordinary."""
    made = [(column.name, *_made(column)) for column in encoding.members(key)]
    return None if any(encode is None for _, encode, _ in made) else [(n, e, d) for n, e, d in made if e is not None]


def _made(column: Column) -> tuple[Encode | None, Any]:
    is_flag = column.kind == "number" and bool(column.values)
    if column.listed or column.indicated or column.transform or column.decimal or is_flag:
        return None, None
    match column.kind:
        case "class":
            return _of_class(column), np.float32 if column.one_hot else np.int64
        case "number":
            return _of_number(column), np.float32
        case "date":
            return _of_date(column), np.float32
        case _:
            return None, None


def _of_class(column: Column) -> Encode:
    count = len(column.values)
    places = {value: place for place, value in enumerate(column.values)}

    def encode(value: Any) -> Sequence[float]:
        if type(value) is not str:
            raise Unusual
        place = places[value]
        if not column.one_hot:
            return (place,)
        vector = [0.0] * count
        vector[place] = 1.0
        return vector

    return encode


def _of_date(column: Column) -> Encode:
    known: dict[str, list[float]] = {}

    def encode(value: Any) -> Sequence[float]:
        if type(value) is not str:
            raise Unusual
        if value not in known:
            try:
                found: list[float] = column.encode(np.array([value], object))[0].tolist()
            except DataError:
                raise Unusual from None
            if len(known) >= MAX_DATES:
                known.clear()
            known[value] = found
            return found
        return known[value]

    return encode


def _of_number(column: Column) -> Encode:
    mean, deviation = column.mean, column.deviation

    def encode(value: Any) -> Sequence[float]:
        if type(value) is not float and type(value) is not int:
            raise Unusual
        number = float(value) if abs(value) <= _LARGEST else np.inf
        if mean is not None and deviation is not None:
            number = (number - mean) / deviation
        if not abs(number) <= _LARGEST:
            raise Unusual
        return (number,)

    return encode

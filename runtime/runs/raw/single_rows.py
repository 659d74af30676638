"""Few rows as objects, encoded value by value: for one row this is much faster than by columns.

It knows the ordinary values of ordinary columns: numbers for numbers, and texts that are classes. Anything else is left
to the encoding by columns, which has the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from runtime.dtypes import Array
from runtime.rows.encoding.column import Column
from runtime.rows.encoding.encoding import Encoding

MAX_ROWS: Final = 16
"""Upper bound on the rows that are encoded value by value."""

_LARGEST: Final = float(np.finfo(np.float32).max)

Encode = Callable[[Any], float | int]


class Unusual(Exception):
    """A value that only the encoding by columns knows."""


class SingleRows:
    """The encoding of rows, for arrays by feed that are made of ordinary columns."""

    def __init__(self, encoding: Encoding, keys: Mapping[str, str]) -> None:
        """Prepare the arrays of these keys by feed."""
        self._feeds = {feed: _makers(encoding, key) for feed, key in keys.items()}
        self._joined = {feed for feed, key in keys.items() if key in encoding.joined}
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
        values = [[encode(row[name]) for name, encode, _ in makers] for row in rows]
        dtype = makers[0][2]
        return np.array(values if feed in self._joined else [row[0] for row in values], dtype)


def _makers(encoding: Encoding, key: str) -> list[tuple[str, Encode, Any]] | None:
    """Return for each column of an array its name, its encoding and its dtype; None if one is not ordinary."""
    made = [(column.name, *_made(column)) for column in encoding.members(key)]
    return None if any(encode is None for _, encode, _ in made) else [(n, e, d) for n, e, d in made if e is not None]


def _made(column: Column) -> tuple[Encode | None, Any]:
    if not column.is_plain:
        return None, None
    if column.kind == "class":
        return _of_class(column), np.int64
    return (_of_number(column), np.float32) if column.kind == "number" else (None, None)


def _of_class(column: Column) -> Encode:
    places = {value: place for place, value in enumerate(column.values)}

    def encode(value: Any) -> int:
        if type(value) is not str:
            raise Unusual
        return places[value]

    return encode


def _of_number(column: Column) -> Encode:
    mean, deviation = column.mean, column.deviation

    def encode(value: Any) -> float:
        if type(value) is not float and type(value) is not int:
            raise Unusual
        number = float(value) if abs(value) <= _LARGEST else np.inf
        if mean is not None and deviation is not None:
            number = (number - mean) / deviation
        if not abs(number) <= _LARGEST:
            raise Unusual
        return number

    return encode

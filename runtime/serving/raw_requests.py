"""Rows as a table has them in JSON: `{"city": "Oslo", "date": "2026-11-23"}`, one or a list of them.

The answer has an object for each row: the predicted values by the label's name, and the elements of each fetch, by
class where it has classes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import numpy as np

from prograd_proto.ragged_names import base_of
from runtime.dtypes import Array, numpy_dtype
from runtime.errors import DataError
from runtime.memory.limit import MemoryLimit
from runtime.rows.encoding.scores import Unanswered
from runtime.rows.ragged import RaggedColumn
from runtime.rows.ragged_inputs import ragged_rows
from runtime.rows.tables.json_pieces import piece_of
from runtime.runs.raw.answers import Answer
from runtime.runs.raw.raw_rows import RawRows
from runtime.runs.raw.single_rows import SingleRows
from runtime.runs.session import Session
from runtime.serving.bodies import Bytes

PARSED_BYTES: Final = 64
"""Upper bound on the bytes that a character of JSON takes while it becomes rows."""


class RawRequest(NamedTuple):
    """The feeds for the rows of a request; `is_one` is True if it was one row without a list."""

    feeds: dict[str, Array]
    is_one: bool


class RawRequests:
    """The conversion of requests with rows as a table has them, for one entry.

    Attributes:
        unanswered: number of rows without a predicted value, because the program computed NaN for them.
    """

    def __init__(self, session: Session, entry: str) -> None:
        self._rows = RawRows(session, entry)
        self._single = SingleRows(self._rows.encoding, self._rows.keys)
        self.unanswered = 0
        self._counts = Unanswered()
        self._data_keys = {column.feed: column.key for column in session.program.data.columns}

    @property
    def columns(self) -> dict[str, str]:
        """The columns that a row needs, with their kinds."""
        return {column.name: column.kind for column in self._rows.columns}

    def read(self, body: Bytes, memory: MemoryLimit) -> RawRequest | None:
        """Return the feeds for a body of JSON; None if it has arrays for feeds.

        Raises DataError, which names the row, for a row that cannot be encoded; ValueError for a body that is no JSON.
        """
        start = bytes(body[:256]).lstrip()
        if not start.startswith((b"{", b"[")) or (start[:1] == b"[" and not start[1:].lstrip().startswith(b"{")):
            return None
        if start[:1] == b"{" and len(body) > 1 << 16:
            return None  # an object of this size has arrays
        memory.require(PARSED_BYTES * len(body), "the rows of the body")
        given: object = json.loads(bytes(body))
        if isinstance(given, dict):
            row = cast(dict[str, Any], given)
            return RawRequest(self._encoded([row]), is_one=True) if self._is_row(row) else None
        rows = cast(list[Any], given)
        for number, row in enumerate(rows):
            if not isinstance(row, dict):
                what = f"is of type {type(row).__name__}, and the rows before it are objects"
                raise DataError(f"row {number} {what}; send an object for each row")
        return RawRequest(self._encoded(cast(list[dict[str, Any]], rows)), is_one=False)

    def _is_row(self, given: Mapping[str, Any]) -> bool:
        """Return True for one row, and False for arrays by feed."""
        if given and given.keys() <= self._rows.bound.feeds.keys():
            return not all(isinstance(value, list) for value in given.values())
        return True

    def _encoded(self, rows: Sequence[dict[str, Any]]) -> dict[str, Array]:
        feeds = self._single.feeds(rows)
        if feeds is not None:
            return feeds
        piece = piece_of(list(rows), np.arange(len(rows)), in_lines=False)
        found = self._rows.feeds(piece.columns)
        return self._padded(found) if any(isinstance(value, list) for value in found.values()) else _arrays(found)

    def _padded(self, feeds: dict[str, object]) -> dict[str, Array]:
        """Return rows of unequal length with zeros behind them, and the feeds of their lengths and masks."""
        bound = self._rows.bound
        count = len(cast(Sequence[object], next(iter(feeds.values()))))
        found = ragged_rows(bound, feeds, self._data_keys)
        if found is None:  # all rows have the full length
            lengths = {base_of(key): feed for feed, key in self._data_keys.items() if feed in bound.feeds}
            if len(bound.feeds) != len(feeds):
                raise DataError(
                    f"rows of the full length need the feeds {', '.join(sorted(lengths.values()))} as arrays"
                )
            return {
                name: np.stack(cast(list[Array], value)) if isinstance(value, list) else cast(Array, value)
                for name, value in feeds.items()
            }
        for name, column in found.columns.items():
            if isinstance(column, RaggedColumn):
                most = int(bound.feeds[name].type.static_shape[1])
                long = column.lengths > most
                if long.any():
                    row = int(long.argmax())
                    what = f"has {int(column.lengths[row])} elements, and the entry takes at most {most}"
                    raise DataError(f"row {row} of {name!r} {what}")
        out = {
            name: np.zeros((count, *feed.type.static_shape[1:]), numpy_dtype(feed.type.dtype))
            for name, feed in bound.feeds.items()
        }
        found.fill(out, 0)
        return out

    def written(self, arrays: Mapping[str, Array], *, is_one: bool) -> bytes:
        """Return the body of the answer for the fetches of a request."""
        chosen = [answer for answer in self._rows.answers if answer.fetch in arrays]
        count = len(arrays[chosen[0].fetch]) if chosen else 0
        values: dict[str, Array] = {}
        for answer in chosen:
            if answer.column is not None and answer.column.name not in values:
                values[answer.column.name] = answer.values(arrays[answer.fetch])
        self._count(values)
        members = {name: _listed(array) for name, array in values.items()}
        for answer in chosen:
            said = _elements(answer, arrays[answer.fetch])
            if said is not None:
                members[answer.fetch] = said
        rows = [{name: values[row] for name, values in members.items()} for row in range(count)]
        return json.dumps(rows[0] if is_one else rows, allow_nan=False).encode()

    def _count(self, values: Mapping[str, Array]) -> None:
        """Count the rows without a predicted value; warn of the first."""
        before = self.unanswered
        self.unanswered += self._counts.add(values)
        if self.unanswered and not before:
            self._counts.warn()


def _elements(answer: Answer, array: Array) -> list[object] | None:
    shares = answer.shares(array)
    if shares is not None and answer.column is not None:
        return [dict(zip(answer.column.values, row, strict=True)) for row in cast(list[list[object]], _listed(shares))]
    return _listed(array) if answer.column is None else None


def _listed(array: Array) -> list[Any]:
    """Return an array as lists, with None for NaN and infinities."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        finite = np.isfinite(array)
        array = array.astype(object)
        array[~finite] = None
    return array.tolist()


def _arrays(feeds: Mapping[str, object]) -> dict[str, Array]:
    return {name: cast(Array, value) for name, value in feeds.items()}

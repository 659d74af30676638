"""Rows as a table has them in JSON: `{"city": "Oslo", "date": "2026-11-23"}`, one or a list of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from prograd_proto.ragged_names import base_of
from runtime.dtypes import Array, numpy_dtype
from runtime.errors import DataError
from runtime.memory.limit import MemoryLimit
from runtime.rows.ragged import RaggedColumn
from runtime.rows.ragged_inputs import ragged_rows
from runtime.runs.raw.raw_rows import RawRows
from runtime.runs.session import Session
from runtime.serving.bodies import Bytes
from runtime.serving.json_arrays import parsed
from runtime.serving.row_answers import RawRequest, RowAnswers

PARSED_BYTES: Final = 64
"""Upper bound on the bytes that a character of JSON takes while it becomes rows."""


MAX_ROW_BYTES: Final = 1 << 16
"""Largest number of bytes of one row, or of columns of a table."""

REMEDY: Final = (
    "send a list with an object for each row of the table, or say ?raw=true for columns of the table, "
    "?raw=false for encoded arrays"
)


class RawRequests:
    """The conversion of requests with rows as a table has them, for one entry.

    Attributes:
        forms: words of Content-Type for rows in other formats than JSON.
        answers: the answers to such rows.
    """

    forms: tuple[str, ...] = ()

    def __init__(self, session: Session, entry: str, decode: Mapping[str, str]) -> None:
        self._rows = RawRows(session, entry, decode)
        self.answers = RowAnswers(self._rows.answers)
        self._data_keys = {column.feed: column.key for column in session.program.data.columns}

    @property
    def columns(self) -> dict[str, str]:
        """The columns that a row needs, with their kinds."""
        return {column.name: column.kind for column in self._rows.columns}

    def read(self, body: Bytes, memory: MemoryLimit, *, form: str, raw: bool | None = None) -> RawRequest | None:
        """Return the feeds for a body of JSON; None if it has arrays for feeds.

        With `raw` None, the body tells whether it has rows of the table or arrays, as rows do in `run.predict`.

        Raises DataError, which names the row, for a row that cannot be encoded; UsageError for numbers that may be of
        the table or encoded; ValueError for a body that is no JSON.
        """
        del form  # always JSON
        start = bytes(body[:256]).lstrip()
        is_list = start[:1] == b"[" and start[1:].lstrip().startswith(b"{")
        if raw is False or not (is_list or start.startswith(b"{")):
            return None
        if start[:1] == b"{" and len(body) > MAX_ROW_BYTES:
            self._require_arrays(raw)
            return None
        memory.require(PARSED_BYTES * len(body), "the rows of the body")
        given = parsed(body)
        if isinstance(given, list):
            return RawRequest(self._encoded(cast(list[object], given)), is_one=False)
        row = cast(dict[str, Any], given)
        if not self._has_columns(row):
            return RawRequest(self._encoded([row]), is_one=True)
        if raw or self._rows.is_raw(row, REMEDY):
            return RawRequest(self._encoded(row), is_one=False)
        return None

    def _has_columns(self, given: Mapping[str, Any]) -> bool:
        """Return True for lists by column or feed, and False for one row."""
        names = self._rows.bound.feeds.keys() | set(self._rows.names)
        return bool(given) and given.keys() <= names and all(isinstance(value, list) for value in given.values())

    def _require_arrays(self, raw: bool | None) -> None:
        """Raise DataError for a body that is too large for columns of the table, unless it must have arrays."""
        changed = [column.name for column in self._rows.columns if column.changes_numbers]
        if raw or changed:
            which = f" if columns such as {changed[0]!r} are encoded" if changed else ""
            raise DataError(
                f"an object of more than {MAX_ROW_BYTES} bytes has encoded arrays for the feeds alone{which}; "
                "send a list with an object for each row, or add ?raw=false for encoded arrays"
            )

    def _encoded(self, rows: object) -> dict[str, Array]:
        found = self._rows.encoded(rows)
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


def _arrays(feeds: Mapping[str, object]) -> dict[str, Array]:
    return {name: cast(Array, value) for name, value in feeds.items()}

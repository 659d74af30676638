"""Rows as a table has them, for an entry: encoded by the encoding in the program, and its fetches as values again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

import numpy as np

from prograd_proto.ragged_names import OFFSETS, base_of
from prograd_proto.spelling import closest
from runtime.dtypes import Array, numpy_dtype
from runtime.entries import BoundEntry
from runtime.errors import DataError, UsageError
from runtime.rows.by_feed import is_frame
from runtime.rows.encoding.column import Column
from runtime.rows.encoding.encoding import Encoding
from runtime.rows.encoding.row_errors import original_rows
from runtime.rows.encoding.values import texts_of
from runtime.rows.tables.arrow import arrow_columns, is_arrow
from runtime.rows.tables.columns import as_column, as_columns, frame_columns
from runtime.runs.raw.answers import answers_of, values_by_name
from runtime.runs.raw.single_rows import SingleRows
from runtime.runs.session import Session

LIBRARY_REMEDY: Final = "say raw=True for those of the table, raw=False for encoded ones"


class RawRows:
    """The conversion of the rows of tables for one entry.

    Attributes:
        keys: arrays by feed that are encoded; lengths and masks of unequal rows follow from them.
        names: columns of a table that the entry needs.
        numbers: those that may be read as float64.
        lead: rows that are read again with those after them: all but one of a window and of what is known behind it.
        answers: the meaning of its fetches.
    """

    def __init__(self, session: Session, entry: str, decode: Mapping[str, str] | None = None) -> None:
        """Prepare an entry; raise DataError if the program's data has no encoding, or lacks a column."""
        self.encoding: Encoding = session.data.encoding()
        self.bound: BoundEntry = session.bindings(entry)[0]
        keys = {column.feed: column.key for column in session.program.data.columns}
        for feed in self.bound.feeds:
            if feed not in keys:
                raise DataError(
                    f"entry {entry!r} reads the feed {feed!r}, which no column of the data gives; "
                    f"name its key by program.data(…, columns={{{feed!r}: 'KEY'}})"
                )
        ragged = {name for name, column in self.encoding.columns.items() if column.is_ragged}
        follow = {feed for feed in self.bound.feeds if base_of(keys[feed]) in ragged}  # lengths and masks
        self.keys = {feed: keys[feed] for feed in self.bound.feeds if feed not in follow}
        for feed, key in self.keys.items():
            self.encoding.require_row(feed, key, self.bound.feeds[feed].type)
        self.columns: list[Column] = [c for key in self.keys.values() for c in self.encoding.sources(key)]
        self.names = list(dict.fromkeys(column.name for column in self.columns))
        others = {c.name for c in self.columns if c.kind != "number" or c.listed or c.decimal or c.values}
        self.numbers = frozenset(self.names) - others
        series = self.encoding.series
        self.lead = 0 if series is None else series.needed(targets=False) - 1
        if series is not None and series.group and series.group not in self.names:
            self.names.append(series.group)
        self.answers = answers_of(session.program, self.bound, self.encoding, decode)
        self._single = SingleRows(self.encoding, self.keys)
        self._entry = entry

    def feeds(self, table: Mapping[str, Array]) -> dict[str, object]:
        """Return the feeds for the rows of a table; rows of unequal length are lists of arrays.

        Raises DataError, which names the row, for a value that cannot be encoded, or a column that the table lacks.
        """
        arrays = self.encoding.encode(table, self.keys.values())
        found: dict[str, object] = {}
        for feed, key in self.keys.items():
            array = arrays[key]
            found[feed] = np.split(array, arrays[key + OFFSETS][1:-1]) if key + OFFSETS in arrays else array
        return found

    def ends(self, table: Mapping[str, Array], rows: int) -> Array:
        """Return the rows of a table that have a prediction: the last ones of its windows, or all."""
        return self.encoding.window_ends(table, rows)

    def values(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return the predicted values by name; see `values_by_name`."""
        return values_by_name(self.answers, arrays)

    def is_raw(self, x: object, remedy: str = LIBRARY_REMEDY) -> bool:
        """Return True if rows from a caller are those of a table, and False if they are arrays for feeds.

        Raises UsageError, which ends with the remedy, for numbers of a column whose encoding changes numbers.
        """
        if is_arrow(x) or is_frame(x) or is_objects(x):
            return True
        if not isinstance(x, Mapping):
            return False
        given = {str(name): value for name, value in cast(Mapping[object, object], x).items()}
        if not self.keys.keys() <= given.keys():
            return any(name in given for name in self.names)
        if any(_has_texts(value) for value in given.values()):
            return True
        for feed, key in self.keys.items():
            column = self.encoding.columns.get(key)
            if column is not None and not _is_array(given[feed], self.bound, feed) and _is_changed(column, given[feed]):
                raise UsageError(f"{feed!r} may be numbers of the table or encoded ones, which differ; {remedy}")
        return False

    def table(self, x: object) -> dict[str, Array]:
        """Return rows from a caller as columns of a table."""
        if hasattr(x, "dtypes") and hasattr(x, "iloc"):
            return frame_columns(x)
        if is_arrow(x):
            return arrow_columns(x)[0]
        if isinstance(x, Mapping):
            return as_columns(cast(Mapping[object, object], x))
        raise UsageError(f"rows of a table are a frame, columns by name or a list of objects, not {type(x).__name__}")

    def encoded(self, x: object) -> dict[str, object]:
        """Return the feeds for rows from a caller; errors name the row."""
        if is_objects(x):
            return self._of_objects(cast(Sequence[object], x))
        with original_rows(None, lines=False):
            return self.feeds(self.table(x))

    def _of_objects(self, rows: Sequence[object]) -> dict[str, object]:
        """Return the feeds for rows that are mappings, each with a value for every column that the entry needs."""
        for number, row in enumerate(rows):
            if not isinstance(row, Mapping):
                what = f"is of type {type(row).__name__}, and the rows before it are objects"
                raise DataError(f"row {number} {what}; send an object for each row")
            given = cast(Mapping[str, object], row)
            absent = next((name for name in self.names if name not in given), None)
            if absent is not None:
                hint = closest(absent, given) or "; give null for a missing value"
                raise DataError(f"row {number} has no {absent!r}{hint}")
        given = cast(Sequence[Mapping[str, object]], rows)
        few = self._single.feeds(given)
        if few is not None:
            return dict(few)
        columns = {name: as_column([row[name] for row in given]) for name in self.names}
        with original_rows(None, lines=False):
            return self.feeds(columns)


def is_objects(x: object) -> bool:
    """Return True for a list of rows that are mappings from columns to values."""
    return isinstance(x, list) and bool(cast(list[object], x)) and isinstance(cast(list[object], x)[0], Mapping)


def _is_changed(column: Column, values: object) -> bool:
    """Return True if encoding would change some of these numbers, as values of the table."""
    elements = list(cast(Iterable[object], values))
    if not column.listed and any(isinstance(element, list | tuple | np.ndarray) for element in elements):
        return False  # values of the table are single
    if column.kind == "class":
        known = set(column.values)
        return any(text in known for text in texts_of(as_column(elements)))
    return column.changes_numbers or (column.fill is not None and _has_nan(values))


def _has_nan(values: object) -> bool:
    try:
        return bool(np.isnan(np.asarray(values, np.float64)).any())
    except (TypeError, ValueError):  # rows of unequal length
        return False


def _has_texts(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return cast(Array, value).dtype.kind in "OUS"
    if not isinstance(value, list | tuple):
        return False
    return any(isinstance(element, str) or element is None for element in cast(list[object], value))


def _is_array(value: object, bound: BoundEntry, feed: str) -> bool:
    """Return True for an array of exactly the feed's dtype, as encoding gives it."""
    return isinstance(value, np.ndarray) and cast(Array, value).dtype == numpy_dtype(bound.feeds[feed].type.dtype)

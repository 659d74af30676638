"""The rows of a source, as steps take them: each step the next ones, in the order of their arrival."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

import numpy as np

from runtime.dtypes import Array, count_nonfinite, is_float
from runtime.entries import BoundEntry
from runtime.errors import SourceEnded, UsageError
from runtime.memory.limit import MemoryLimit
from runtime.rows.rows import check_names, checked_array
from runtime.rows.source import Source


class Streamed:
    """The counterpart of `Rows` for a source: its length is that of an epoch, and rows are taken in order.

    Attributes:
        cursor: the position of the source after the rows of the last step.
    """

    in_memory = False

    def __init__(self, bound: BoundEntry, source: Source, rows: int) -> None:
        """Begin with `rows` rows per epoch, for steps of the bound entry."""
        self._bound = bound
        self._source = source
        self._rows = rows
        self._fed: dict[str, Array] = {}
        _require_json(source.cursor)
        for feed in bound.feeds.values():
            if not feed.by_row:
                raise UsageError(f"a source gives rows, and the feed {feed.name!r} is {feed.type} for all of them")

    def __len__(self) -> int:
        return self._rows

    @property
    def cursor(self) -> Any:
        """Return the position of the next rows."""
        return deepcopy(self._source.cursor)

    def seek(self, cursor: Any) -> None:
        """Go to the end of a step's rows."""
        if cursor != self._source.cursor:
            self._source.seek(cursor)

    def shuffled(self, seed: int, epoch: int, window: int = 0, memory: MemoryLimit | None = None) -> Streamed:
        """Return itself: the source determines the order."""
        return self

    def fill(self, feeds: Mapping[str, Array], start: int) -> None:
        """Copy the next rows into the feeds; raise SourceEnded if there are too few, DataError for an invalid row."""
        count, done = self._bound.rows, 0
        while done < count:
            given = self._source.take(count - done)
            if not given:
                raise SourceEnded(done)
            check_names(self._bound, given)
            arrays = {name: checked_array(self._bound, feed, given[name]) for name, feed in self._bound.feeds.items()}
            rows = min(len(array) for array in arrays.values())
            if not rows:
                raise SourceEnded(done)
            for name, array in arrays.items():
                np.copyto(feeds[name][done : done + rows], array[:rows])
            done += rows
        self._fed = {name: array.copy() for name, array in feeds.items()}

    def named(self, start: int, count: int) -> str:
        """Return `; fed are the rows 64 to 95 of the epoch`."""
        return f"; fed are the rows {start} to {start + count - 1} of the epoch"

    def holding(self, number: int, feeds: Iterable[str], start: int, count: int) -> list[str]:
        """Return the rows that have a number; see `Rows.holding`."""
        told: list[str] = []
        for name in feeds:
            fed = self._fed[name]
            found = (fed == number).reshape(len(fed), -1).any(axis=1) if fed.dtype.kind in "iu" else np.zeros(1, bool)
            if found.any():
                told.append(f"; row {start + found.argmax()} of the epoch has it in the feed {name!r}")
        return told

    def nonfinite(self, start: int, count: int) -> str:
        """Return the first row with NaN or Inf; see `Rows.nonfinite`."""
        for name, fed in self._fed.items():
            for row in range(len(fed) if is_float(fed) else 0):
                if count_nonfinite(fed[row : row + 1]):
                    return f"row {start + row} of the epoch has NaN or Inf in the feed {name!r}: "
        return ""


def _require_json(cursor: object) -> None:
    from json import dumps

    try:
        dumps(cursor, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the cursor of the source cannot be kept in a checkpoint: {error}") from None

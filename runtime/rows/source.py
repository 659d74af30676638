"""Rows that arrive one after another, in unknown number: from a generator, a database, a simulator.

A source has a cursor, which tells the position of the next rows. Checkpoints keep it, and a resumed run seeks it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from runtime.dtypes import Array
from runtime.errors import DataError, UsageError
from runtime.rows.by_feed import by_feed

Batches = Iterable[Mapping[str, object]]
"""Rows as they arrive: arrays by feed, with any number of rows on axis 0."""


@runtime_checkable
class Source(Protocol):
    """A source of rows, one after another."""

    @property
    def cursor(self) -> Any:
        """Return the position of the next rows: a JSON value other than None."""
        ...

    def seek(self, cursor: Any) -> None:
        """Go to the position of a cursor."""
        ...

    def take(self, rows: int) -> Mapping[str, object]:
        """Return the next rows, an array for each feed: at most `rows`, and none only where the source ends."""
        ...


class Iterated:
    """A source from an iterator; its cursor counts the rows that were taken.

    Seeking reads all earlier rows: from the start where a function makes the iterator, else from the present position.
    """

    def __init__(self, batches: Batches | Callable[[], Batches], feeds: Sequence[str] = ()) -> None:
        """Begin with `batches`, an iterable, or a function without arguments that returns one from its start.

        `feeds` are the names of arrays in batches that are tuples.
        """
        self._feeds = feeds
        self._make = batches if callable(batches) else None
        self._batches: Iterator[Mapping[str, object]] = iter(batches() if callable(batches) else batches)
        self._taken = 0  # number of batches that are used up
        self._used = 0  # number of used rows of the next batch
        self._batch: dict[str, Array] = {}

    @property
    def cursor(self) -> list[int]:
        """Return the number of batches that are used up, and the number of used rows of the next one."""
        return [self._taken, self._used]

    def seek(self, cursor: Any) -> None:
        """Go to a cursor; raise DataError for a position that does not exist, or that an iterator has passed."""
        numbers = cast(list[Any], cursor) if isinstance(cursor, list) else []
        if [type(number) for number in numbers] != [int, int] or min(numbers) < 0:
            raise DataError("the checkpoint has another cursor than an iterator; resume with the source that wrote it")
        taken, used = numbers
        if [taken, used] < self.cursor:
            if self._make is None:
                raise DataError(
                    f"the iterator has given {self._taken} batches already, and the run goes on after {taken}; "
                    "give a function that makes it anew"
                )
            self._batches, self._taken, self._used, self._batch = iter(self._make()), 0, 0, {}
        if taken > self._taken:
            begun = bool(self._batch)  # the rest of it is skipped as well
            self._batch = {}
            self._taken += begun + sum(1 for _ in islice(self._batches, taken - self._taken - begun))
            if self._taken < taken:
                raise DataError(f"the iterator ends after {self._taken} batches, and the run goes on after {taken}")
        self._used = used

    def take(self, rows: int) -> dict[str, Array]:
        """Return the next rows; see `Source`."""
        while True:
            if not self._batch:
                given = next(self._batches, None)
                if given is None:
                    return {}
                self._batch = _arrays(given, self._feeds)
            count = len(next(iter(self._batch.values())))
            start, stop = min(self._used, count), min(self._used + rows, count)
            found = {name: array[start:stop] for name, array in self._batch.items()}
            self._used = stop
            if stop == count:
                self._batch, self._used = {}, 0
                self._taken += 1
            if start < stop:
                return found


def as_source(data: object, feeds: Sequence[str]) -> Source:
    """Return a source, or one from an iterator or a function that makes one; raise UsageError for anything else.

    `feeds` are the names of arrays in batches that are tuples.
    """
    if isinstance(data, Source):
        return data
    if callable(data) or isinstance(data, Iterable):
        return Iterated(cast(Any, data), feeds)
    raise UsageError(
        f"data is of type {type(data).__name__}: give a split by its name, an array per feed, "
        "an iterator of such mappings, or a source that has take, seek and cursor"
    )


def _arrays(given: object, feeds: Sequence[str]) -> dict[str, Array]:
    """Return a batch by feed; a tuple, or a list as DataLoader of PyTorch gives, has an array for each of `feeds`."""
    if isinstance(given, tuple | list):
        items = cast(Sequence[object], given)
        if len(items) == len(feeds) and all(hasattr(item, "dtype") for item in items):
            given = dict(zip(feeds, items, strict=True))
    given = by_feed(cast(object, given))
    if not isinstance(given, Mapping):
        raise DataError(f"the iterator gives what is of type {type(given).__name__}, and not arrays by feed")
    arrays = {str(name): np.asarray(values) for name, values in cast(Mapping[Any, Any], given).items()}
    lengths = {len(array) if array.ndim else -1 for array in arrays.values()}
    if len(lengths) != 1 or -1 in lengths:
        raise DataError("the iterator gives arrays of different numbers of rows, or without rows")
    return arrays

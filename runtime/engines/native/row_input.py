"""The input of rows into a step, as chunks of a first phase: rows are copied, or read in place.

Rows that are contiguous in the order of use need no copy: the tables of the groups that read them point to the first of
them. Other rows are copied to the feed by their numbers; so are rows that the end of a step reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from runtime.codegen.code import ADDRESS_BYTES, FeedPlace, NativeCode
from runtime.codegen.costs import FEED_BYTE_CYCLES
from runtime.codegen.lowering.chunks import split_items
from runtime.codegen.machine import CACHE_LINE_BYTES
from runtime.dtypes import Array
from runtime.engines.engine import InMemory
from runtime.engines.native.driver import driver_code

Record = tuple[int, int, int, int]
"""A chunk in the driver's format: a function, its table, its first work item and the one after its last."""


class RowInput(NamedTuple):
    """The chunks that take the rows of a step.

    Attributes:
        steps: the chunks for each feed, and about how many cycles they take.
        words: the tables of the step's groups, which point to rows that are read in place.
        alive: arrays that the chunks read.
    """

    steps: list[tuple[list[Record], float]]
    words: Array
    alive: object


def row_input(
    code: NativeCode, words: Array, feeds: Mapping[str, Array], rows: InMemory, position: Array, batch: int
) -> RowInput:
    """Return the chunks that take the rows of a step. A word holds the position of the first row when the step begins.

    `words` are the tables of the step, which stay as they are.
    """
    numbers, words = np.ascontiguousarray(rows.numbers, np.int64), words.copy()
    chunks = _Chunks(code, feeds, rows, numbers, position, batch)
    in_order = _is_in_order(numbers)
    for base, feed in enumerate(code.feeds, code.first_feed):
        if not feed.is_read_at_end and (in_order or feed.name not in rows.columns):
            chunks.point(feed.name, words, code.words_at(base).tolist())
        else:
            chunks.copy(feed)
    return RowInput(chunks.steps, words, (chunks.alive, numbers, position, rows))


def _is_in_order(numbers: Array) -> bool:
    """Return True if each row follows the one before it."""
    if len(numbers) < 2 or numbers[1] != numbers[0] + 1:
        return len(numbers) < 2
    return bool((np.diff(numbers) == 1).all())


class _Chunks:
    def __init__(
        self, code: NativeCode, feeds: Mapping[str, Array], rows: InMemory, numbers: Array, position: Array, batch: int
    ) -> None:
        self._threads, self._feeds, self._rows, self._batch = code.threads, feeds, rows, batch
        self._numbers, self._position, self._nought = numbers, position, np.zeros(1, np.int64)
        self._code = driver_code(code.target)
        self.steps: list[tuple[list[Record], float]] = []
        self.alive: list[Array] = [self._nought]

    def point(self, name: str, words: Array, positions: list[int]) -> None:
        """Point these words of tables to the rows; see `point_at_rows` in `codegen.emit.driver`."""
        feed, column = self._feeds[name], self._rows.columns.get(name)
        moved = [int(words[position]) - feed.ctypes.data for position in positions]
        if column is None:
            words[positions] = self._rows.whole[name].ctypes.data + np.array(moved, np.int64)
            return
        first = int(self._numbers[0]) if len(self._numbers) else 0
        size = column[:1].nbytes
        to = [(words.ctypes.data + ADDRESS_BYTES * position, by) for position, by in zip(positions, moved, strict=True)]
        head = column.ctypes.data + first * size, self._position.ctypes.data, size
        table = self._kept(np.array([*head, *(word for pair in to for word in pair)], np.int64))
        self.steps.append(([(self._code.address("point_at_rows"), table, 0, len(positions))], 0.0))

    def copy(self, place: FeedPlace) -> None:
        """Copy the rows by `take_rows` of `codegen.emit.driver`, in two halves if threads read them so."""
        name = place.name
        feed, items = self._feeds[name], self._batch if name in self._rows.columns else 1
        tables = [self._kept(np.array(table, np.int64)) for table in self._copies(name, 2 if place.is_halved else 1)]
        cost = feed.nbytes * FEED_BYTE_CYCLES
        cuts = split_items(items, cost / len(tables), self._threads)
        take_rows = self._code.address("take_rows")
        self.steps.append(([(take_rows, table, start, stop) for table in tables for start, stop in cuts], cost))

    def _copies(self, name: str, parts: int) -> list[tuple[int, ...]]:
        feed = self._feeds[name]
        if name not in self._rows.columns:
            where = self._nought.ctypes.data, self._nought.ctypes.data
            return [(self._rows.whole[name].ctypes.data, feed.ctypes.data, *where, feed.nbytes, feed.nbytes)]
        column = self._rows.columns[name]
        size = column[:1].nbytes
        where = self._numbers.ctypes.data, self._position.ctypes.data
        starts = [size * i // parts // CACHE_LINE_BYTES * CACHE_LINE_BYTES for i in range(parts)]
        return [
            (column.ctypes.data + start, feed.ctypes.data + start, *where, stop - start, size)
            for start, stop in pairwise([*starts, size])
        ]

    def _kept(self, table: Array) -> int:
        self.alive.append(table)
        return table.ctypes.data

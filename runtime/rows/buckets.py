"""Rows by length: each goes to the shortest step that holds it, and every step takes rows of one length.

1. Each row belongs to the bucket of the shortest length that holds it.
2. Rows that do not fill a step of their bucket go to the next longer one, the last rows first. So only the longest
   bucket has rows that fill no step, as many as all rows together would leave.
3. Where rows are shuffled, all rows are put into the order of the epoch first, and at the end the steps are shuffled.
   The step that is not full stays the last. Both orders depend only on the seed and the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from runtime.dtypes import Array
from runtime.entries import BoundEntry
from runtime.errors import DataError
from runtime.philox import permutation
from runtime.rows.orders import Listed
from runtime.rows.ragged import RaggedColumn
from runtime.rows.rows import Rows

STEP_ORDER_OFFSET: Final = 1 << 62
"""Offset that is added to the epoch for the order of steps."""

LENGTH_BYTES: Final = 144
"""Bytes of memory per row while rows are put into an order by length, and shuffled."""

APART_BYTES: Final = 240
"""Bytes of memory per row likewise, where each row may be a step."""

_NONE: Final = np.empty(0, np.int64)


class ByLength(Listed):
    """An order in which every `batch` rows, from the first on, belong to one bucket.

    Attributes:
        rest: first position of the rows that fill no step, in the longest bucket.
    """

    def __init__(self, numbers: Array, buckets: Array, count: int, batch: int) -> None:
        """Order the rows `numbers` by their `buckets`, of which there are `count`, for steps of `batch` rows."""
        self._given, self._buckets, self._count, self._batch = numbers, buckets, count, batch
        steps: list[Array] = []
        of_step: list[int] = []
        left = _NONE
        for bucket in range(count):
            places = np.concatenate([left, np.flatnonzero(buckets == bucket)])
            full = len(places) // batch
            steps += np.split(places[: full * batch], full) if full else []
            of_step += [bucket] * full
            left = places[full * batch :]
        self.rest = len(steps) * batch
        self._steps, self._of_step, self._left = steps, of_step, left
        self.places = np.concatenate([*steps, left])
        super().__init__(numbers[self.places])

    def bucket_at(self, position: int) -> int:
        """Return the bucket of the step that begins at a position."""
        return self._of_step[position // self._batch] if position < self.rest else self._count - 1

    def runs(self) -> list[tuple[int, Array]]:
        """Return each bucket with the positions, among the input rows, of all rows computed in its steps."""
        found = [np.concatenate([s for s, b in zip(self._steps, self._of_step, strict=True) if b == bucket] or [_NONE])
                 for bucket in range(self._count)]  # fmt: skip
        found[-1] = np.concatenate([found[-1], self._left])
        return [(bucket, places) for bucket, places in enumerate(found) if len(places)]

    def shuffled(self, seed: int, epoch: int) -> ByLength:
        """Return the same rows in the order of an epoch."""
        order = permutation(seed, epoch, len(self))
        made = ByLength(self._given[order], self._buckets[order], self._count, self._batch)
        turns: list[int] = permutation(seed, epoch + STEP_ORDER_OFFSET, len(made._steps)).tolist()
        made._of_step = [made._of_step[turn] for turn in turns]
        made.places = np.concatenate([*(made._steps[turn] for turn in turns), made._left])
        made._numbers = made._given[made.places]
        return made


def by_length(entry: str, lengths: Sequence[Sequence[BoundEntry]], rows: Rows, *, batch: int) -> ByLength:
    """Return the rows by length, for steps of `batch` rows; `lengths` are the bindings, the shortest first."""
    feeds = [one[0].feeds.values() for one in lengths]
    for name, column in rows.columns.items():
        for one in lengths:
            shape = one[0].feeds[name].type.static_shape
            if isinstance(column, RaggedColumn) and shape[2:] != column.shape[2:]:
                raise DataError(
                    f"entry {entry!r}: the elements of the feed {name!r} have the shape {list(column.shape[2:])}, and "
                    f"steps of one length take {list(shape[2:])}; only axis 1 of a row may be unequal"
                )
    held = [{feed.name: feed.type.static_shape[1] for feed in each if feed.type.rank > 1} for each in feeds]
    return ByLength(rows.numbers, _buckets_of(rows, held, entry), len(lengths), batch)


def _buckets_of(rows: Rows, lengths: Sequence[Mapping[str, int]], entry: str) -> Array:
    """Return the bucket of each row by position; `lengths` are the extents in each bucket, the shortest first.

    Raises DataError for a row that is longer than all of them.
    """
    numbers = rows.numbers
    found = np.full(len(numbers), len(lengths))
    for bucket in reversed(range(len(lengths))):
        fits = np.ones(len(numbers), bool)
        for name, column in rows.columns.items():
            if isinstance(column, RaggedColumn):
                fits &= column.lengths[numbers] <= lengths[bucket][name]
        found[fits] = bucket
    outside = np.flatnonzero(found == len(lengths))
    if len(outside):
        raise _too_long(rows, int(numbers[outside[0]]), lengths[-1], entry)
    return found


def _too_long(rows: Rows, number: int, longest: Mapping[str, int], entry: str) -> DataError:
    for name, column in rows.columns.items():
        if isinstance(column, RaggedColumn) and column.lengths[number] > longest[name]:
            return DataError(
                f"row {number} of the feed {name!r} has {column.lengths[number]} elements, and the longest that the "
                f"entry {entry!r} takes is {longest[name]}; compile the program with a longer one, or cut the row"
            )
    raise AssertionError("one of them is too long")

"""Rows: the values of feeds, from which the steps of a run take their batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS, INTEGER_RANGES, INTEGERS, wide
from prograd_proto.spelling import closest_or_all
from runtime.conversion import converted, converted_input, python_dtype
from runtime.dtypes import Array, array_type, count_nonfinite, is_float, numpy_dtype
from runtime.entries import BoundEntry, Feed
from runtime.errors import DataError
from runtime.memory.limit import NO_LIMIT, MemoryLimit
from runtime.philox import permutation
from runtime.rows.casts import cast_rows, is_cast, require_unmasked, say_cast
from runtime.rows.orders import NUMBER_BYTES, Listed, Order, ShuffledBySteps, Span
from runtime.rows.stored_column import Column, StoredColumn, rows_of, take_rows

if TYPE_CHECKING:
    from runtime.rows.windows import WindowBuffer

SHOWN_ROWS = 8
"""Number of rows whose numbers an error lists."""

SHUFFLING_BYTES: Final = 5 * NUMBER_BYTES
"""Bytes of memory per row while rows are shuffled: random bits, positions, and the resulting order."""


class Rows:
    """A selection of rows in an order, and the feeds that are the same for all of them.

    Attributes:
        columns: the rows of each feed: arrays whose axis 0 counts them, or columns that stay in their files.
        whole: arrays that every step takes whole, by feed.
        order: the number of the row at each position.
    """

    def __init__(self, columns: Mapping[str, Column], whole: Mapping[str, Array], order: Order) -> None:
        self.columns = dict(columns)
        self.whole = dict(whole)
        self.order = order
        self._window: WindowBuffer | None = None

    def __len__(self) -> int:
        return len(self.order)

    @property
    def numbers(self) -> Array:
        """The int64 numbers of all rows, in order: an array of eight bytes per row."""
        return self.order.numbers(0, len(self))

    @property
    def in_memory(self) -> bool:
        """True if the arrays of all rows are in memory, as `columns` and `numbers`."""
        return all(isinstance(column, np.ndarray) for column in self.columns.values())

    @property
    def stored(self) -> dict[str, StoredColumn]:
        """The columns that stay in their files; if there are none, the others are all rows, in memory."""
        return {name: column for name, column in self.columns.items() if isinstance(column, StoredColumn)}

    def shuffled(self, seed: int, epoch: int, window: int = 0, memory: MemoryLimit = NO_LIMIT) -> Rows:
        """Return the rows in the order of an epoch: of all of them, or within windows of about `window` rows.

        Raises ResourceLimit if the rows of a window stay in files, and do not fit into the memory.
        """
        if isinstance(self.order, ShuffledBySteps):
            return Rows(self.columns, self.whole, self.order.shuffled(seed, epoch))
        if not window:
            return Rows(self.columns, self.whole, Listed(self.order.at(permutation(seed, epoch, len(self)))))
        from runtime.rows.windows import WindowBuffer, Windows  # for few

        windows = Windows(self.order, window, seed, epoch)
        rows = Rows(self.columns, self.whole, windows)
        stored = self.stored
        rows._window = WindowBuffer(stored, windows, memory) if stored else None
        return rows

    def named(self, start: int, count: int) -> str:
        """Return `; fed are the rows 7, 3 and 30 more` for the rows from `start` on; empty if no feed has rows."""
        if not self.columns:
            return ""
        numbers = self.order.numbers(start, count).tolist()
        shown, more = numbers[:SHOWN_ROWS], len(numbers) - SHOWN_ROWS
        words = ", ".join(map(str, shown)) + (f" and {more} more" if more > 0 else "")
        return f"; fed {'is the row' if len(numbers) == 1 else 'are the rows'} {words}"

    def holding(self, number: int, feeds: Iterable[str], start: int, count: int) -> list[str]:
        """Return `; row 3 of the feed 'label' has it` for each of the feeds that has an integer, by its first row."""
        numbers = self.order.numbers(start, count)
        told: list[str] = []
        for name in feeds:
            column = self.columns.get(name)
            if column is not None and column.dtype.kind in "iu":
                found = (rows_of(column, numbers) == number).reshape(len(numbers), -1).any(axis=1)
                if found.any():
                    told.append(f"; row {numbers[found.argmax()]} of the feed {name!r} has it")
        return told

    def nonfinite(self, start: int, count: int) -> str:
        """Return `row 3 of the feed 'x' has NaN or Inf: ` for the first feed with such a row; empty if none has."""
        for name, column in self.columns.items():
            if is_float(np.empty(0, column.dtype)):
                for number in self.order.numbers(start, count):
                    if count_nonfinite(rows_of(column, np.array([number]))):
                        return f"row {number} of the feed {name!r} has NaN or Inf: "
        return ""

    def fill(self, feeds: Mapping[str, Array], start: int) -> None:
        """Copy the rows from position `start` on, as many as the feeds take, into the feeds."""
        run = self.order.as_slice(start) if isinstance(self.order, Span) else None
        for name, out in feeds.items():
            column = self.columns.get(name)
            if column is None:
                np.copyto(out, self.whole[name])
            elif run is not None and isinstance(column, np.ndarray):
                np.copyto(out, column[run][: len(out)])
            elif self._window is None or not isinstance(column, StoredColumn):
                take_rows(column, self.order.numbers(start, len(out)), out)
        if self._window is not None:
            self._window.fill({name: feeds[name] for name in self.stored if name in feeds}, start)


def input_rows(bound: BoundEntry, given: Mapping[str, object], memory: MemoryLimit = NO_LIMIT) -> Rows:
    """Return all rows of arrays for every feed of an entry.

    Raises DataError for a missing or unknown feed, another dtype or shape, or columns of different length.
    """
    arrays = checked_feeds(bound, given)
    columns = {name: array for name, array in arrays.items() if bound.feeds[name].by_row}
    whole = {name: array for name, array in arrays.items() if name not in columns}
    count = common_length(columns, "feed", bound.rows)
    memory.require(count * NUMBER_BYTES, "the numbers of the rows")  # rows without elements may be any number
    return Rows(columns, whole, Span(0, count))


def checked_feeds(bound: BoundEntry, given: Mapping[str, object]) -> dict[str, Array]:
    """Return an array for every feed of an entry; raise DataError unless exactly these are given, and fit."""
    check_names(bound, given)
    return {feed.name: checked_array(bound, feed, given[feed.name]) for feed in bound.feeds.values()}


def check_names(bound: BoundEntry, given: Mapping[str, object]) -> None:
    """Raise DataError unless exactly the entry's feeds are given."""
    for name in given:
        if name not in bound.feeds:
            hint = closest_or_all(name, bound.feeds, "its feeds are:")
            raise DataError(f"entry {bound.name!r} has no feed {name!r}{hint}")
    for feed in bound.feeds.values():
        if feed.name not in given:
            raise DataError(
                f"entry {bound.name!r} reads the feed {feed.name!r}: {shown_feed(feed)}, which is not given; "
                "give an array for each feed, or declare rows by program.data"
            )


def checked_array(bound: BoundEntry, feed: Feed, value: object) -> Array:
    """Return a value for a feed as an array; lists and numbers take the feed's dtype if that loses nothing.

    Arrays of float64 are rounded for float32, which the log says, and other numbers take the dtype if it holds them
    exactly. Raises DataError if it does not, or if the shape differs.
    """
    require_unmasked(feed.name, value)
    array = as_array(value, feed.type.dtype)
    if array.dtype.kind == "O" and not isinstance(value, np.ndarray):
        what = type(value).__name__
        shown = shown_feed(feed)
        raise DataError(f"entry {bound.name!r}: the feed {feed.name!r} is {shown}, not {what}; give an array")
    if array.dtype.kind in "US":
        shown = shown_feed(feed)
        raise DataError(f"entry {bound.name!r}: the feed {feed.name!r} is {shown}, not text; give numbers")
    shape = feed.type.static_shape
    inner = array.shape[1:] == shape[1:] and array.ndim == len(shape) if feed.by_row else array.shape == shape
    if inner and array.dtype == numpy_dtype(feed.type.dtype):
        return array
    found = array_type(array)
    if inner and is_cast(found.dtype, feed.type.dtype):
        say_cast(f"entry {bound.name!r}: the array for the feed {feed.name!r}", found.dtype)
        rounded = np.empty(array.shape, numpy_dtype(feed.type.dtype))
        cast_rows(feed.name, array, rounded)
        return rounded
    if found.dtype != feed.type.dtype or not inner:
        raise DataError(
            f"entry {bound.name!r}: the feed {feed.name!r} is {shown_feed(feed)}, the array given is {found}"
            f"{_remedy(feed, array)}"
        )
    return array


def _remedy(feed: Feed, array: Array) -> str:
    """Return how to change an array that almost fits a feed, as the end of an error; empty for any other array."""
    shape = feed.type.static_shape
    if feed.by_row and array.ndim == len(shape) + 1 and array.shape[1:] == (*shape[1:], 1):
        return "; leave its last axis out, as in array[..., 0]"
    dtype = feed.type.dtype
    if array.ndim != len(shape) or (feed.by_row and array.shape[1:] != shape[1:]) or array.dtype.kind not in "fb":
        return ""
    if dtype not in INTEGERS:
        return f"; cast it, as in array.astype({dtype!r})" if dtype in FLOATS else ""
    if not np.isfinite(array).all():
        return f"; row {int(np.argwhere(~np.isfinite(array))[0][0])} of it is NaN or Inf"
    return f"; if these are whole numbers, cast them, as in array.astype({dtype!r})"


def as_array(value: object, dtype: str) -> Array:
    """Return an array as it is, and another value in that dtype if that is exact, else in its natural one.

    Raises DataError for a list that is no array, for a whole number that the dtype does not have, and for a finite
    number that would be Inf.
    """
    if isinstance(value, np.ndarray):
        return converted_input(cast(Array, value), dtype)
    try:
        natural = np.asarray(value)
    except ValueError as error:
        raise DataError(f"a feed cannot be made of this list: {error}") from None
    integers = natural.dtype.kind in "iu" and dtype in INTEGER_RANGES
    fits = integers or not natural.size or np.can_cast(natural.dtype, wide(dtype), "same_kind")
    if isinstance(value, np.generic) or not fits:
        return converted_input(natural, dtype)
    made = natural.astype(dtype) if integers else converted(natural, dtype)
    lost = made != natural if integers else np.isinf(converted(made, python_dtype(dtype))) & np.isfinite(natural)
    if lost.any():
        raise DataError(f"the number {natural[lost][0]} is too large or too small for {dtype}")
    return made


def common_length(columns: Mapping[str, Column], what: str, otherwise: int) -> int:
    """Return the number of rows of all columns, `otherwise` if there are none; raise DataError if they differ."""
    first, length = "", otherwise
    for name, array in columns.items():
        if not first:
            first, length = name, len(array)
        elif len(array) != length:
            raise DataError(
                f"the {what}s differ in their number of rows: {first!r} has {length}, {name!r} {len(array)}"
            )
    return length


def shown_feed(feed: Feed) -> str:
    """Return the type of a feed as errors show it: `float32[rows, 64]` for rows, else the type as it is."""
    if not feed.by_row:
        return str(feed.type)
    return str(TensorType(feed.type.dtype, ("rows", *feed.type.shape[1:])))

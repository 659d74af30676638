"""Rows of unequal length as lists from a caller: a feed is a list of arrays, and its lengths or mask follow from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from prograd_proto import TensorType
from prograd_proto.ragged_names import LENGTHS, base_of
from runtime.dtypes import Array, array_type, numpy_dtype
from runtime.entries import BoundEntry, Feed
from runtime.errors import DataError
from runtime.rows.orders import Span
from runtime.rows.ragged import MaskColumn, RaggedColumn
from runtime.rows.rows import Rows, as_array, check_names, checked_array, common_length
from runtime.rows.stored_column import Column


def ragged_rows(bound: BoundEntry, given: Mapping[str, object], keys: Mapping[str, str]) -> Rows | None:
    """Return the rows if a feed is a list whose rows are not all of the length of the step; else None.

    `keys` are the columns of the program's data by feed: they tell to which feed a missing feed of lengths or masks
    belongs. Raises DataError as `input_rows` does.
    """
    ragged = {n: _ragged(bound, bound.feeds[n], value) for n, value in given.items() if n in bound.feeds}
    columns: dict[str, Column] = {name: column for name, column in ragged.items() if column is not None}
    if not columns:
        return None
    by_key = {keys.get(name, name): column for name, column in columns.items()}
    for feed in bound.feeds.values():
        column = by_key.get(base_of(keys.get(feed.name, "")))
        if feed.name not in given and isinstance(column, RaggedColumn):
            columns[feed.name] = derived(keys[feed.name], column, feed)
    check_names(bound, {**given, **columns})
    whole: dict[str, Array] = {}
    for name in [name for name in bound.feeds if name not in columns]:
        array = checked_array(bound, bound.feeds[name], given[name])
        (columns if bound.feeds[name].by_row else whole)[name] = array
    return Rows(columns, whole, Span(0, common_length(columns, "feed", bound.rows)))


def derived(key: str, column: RaggedColumn, feed: Feed) -> Column:
    """Return the lengths of a column's rows, or its mask, for a feed; raise DataError for a feed that takes neither."""
    dtype, shape = numpy_dtype(feed.type.dtype), feed.type.static_shape
    if key.endswith(LENGTHS):
        if len(shape) != 1 or feed.type.dtype == "bool":
            raise DataError(f"{key!r} are whole numbers, one for each row, and the feed {feed.name!r} is {feed.type}")
        return column.lengths.astype(dtype)
    if len(shape) != 2:
        raise DataError(f"{key!r} has a number for each place of a row, and the feed {feed.name!r} is {feed.type}")
    return MaskColumn(column.lengths, dtype)


def _ragged(bound: BoundEntry, feed: Feed, value: object) -> RaggedColumn | None:
    shape = feed.type.static_shape
    if not feed.by_row or len(shape) < 2 or not isinstance(value, list | tuple) or not value:
        return None
    rows = cast(Sequence[object], value)
    if any(not isinstance(row, list | tuple | np.ndarray) for row in rows):
        return None
    arrays = [as_array(row, feed.type.dtype) for row in rows]
    if all(array.shape[:1] == shape[1:2] for array in arrays):
        return None
    for number, array in enumerate(arrays):
        found = array_type(array)
        if (
            array.shape[1:] != shape[2:]
            or array.ndim != len(shape) - 1
            or (found.dtype != feed.type.dtype and len(array))
        ):
            raise DataError(
                f"entry {bound.name!r}: row {number} given for the feed {feed.name!r} is {found}, a row of it is "
                f"{TensorType(feed.type.dtype, shape[1:])}, or shorter"
            )
    values = np.concatenate(arrays).astype(numpy_dtype(feed.type.dtype), copy=False)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(array) for array in arrays])])
    return RaggedColumn(feed.name, values, offsets, None)

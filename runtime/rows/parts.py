"""Rows with the bindings that take them: all by one length, or each by the shortest that holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from runtime.dtypes import Array
from runtime.entries import BoundEntry
from runtime.errors import DataError
from runtime.rows.orders import Listed
from runtime.rows.rows import Rows
from runtime.rows.stored_column import StoredColumn


class Part(NamedTuple):
    """Rows of one length.

    Attributes:
        bindings: bindings that take them, the one with the most rows first.
        rows: the rows in the order in which they are taken.
        places: index of each row among all rows; None if they are all rows, in their order.
    """

    bindings: list[BoundEntry]
    rows: Rows
    places: Array | None


class Steps(NamedTuple):
    """Rows to train on.

    Attributes:
        bindings: bindings for the longest rows, the one with the most rows first.
        lengths: the binding of each length with the most rows, the shortest first.
        rows: the rows in order.
    """

    bindings: list[BoundEntry]
    lengths: list[BoundEntry]
    rows: Rows


def is_ragged(rows: Rows) -> bool:
    """Return True if rows are of unequal length."""
    return any(not isinstance(column, np.ndarray | StoredColumn) for column in rows.columns.values())


def fits(bound: BoundEntry, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Return True if rows of these shapes have the length that a binding takes."""
    feeds = [bound.feeds[name] for name in shapes if name in bound.feeds and bound.feeds[name].by_row]
    return all(shapes[feed.name] == feed.type.static_shape[1:] for feed in feeds)


def parts_of(entry: str, lengths: Sequence[list[BoundEntry]], rows: Rows, *, apart: bool) -> list[Part]:
    """Return the parts of rows; see `Session.parts`."""
    if not is_ragged(rows):
        shapes = {name: column.shape[1:] for name, column in rows.columns.items()}
        fit = [one for one in lengths if fits(one[0], shapes)] or [lengths[-1]]
        return [Part(fit[-1], rows, None)]
    from runtime.rows.buckets import by_length  # few runs need it

    order = by_length(entry, lengths, rows, batch=1 if apart else lengths[-1][0].rows)
    return [
        Part(lengths[bucket], Rows(rows.columns, rows.whole, Listed(rows.order.at(places))), places)
        for bucket, places in order.runs()
    ]


def steps_of(entry: str, lengths: Sequence[list[BoundEntry]], rows: Rows) -> Steps:
    """Return the steps of rows; see `Session.steps`."""
    if not is_ragged(rows):
        [part] = parts_of(entry, lengths, rows, apart=False)
        return Steps(part.bindings, [part.bindings[0]], rows)
    from runtime.rows.buckets import by_length  # few runs need it

    largest = [one[0] for one in lengths]
    batch = largest[-1].rows
    for bound in largest:
        if bound.rows != batch:
            raise DataError(f"entry {entry!r} takes {batch} rows of one length, and {bound.rows} of another, at a step")
    order = by_length(entry, lengths, rows, batch=batch)
    return Steps(lengths[-1], largest, Rows(rows.columns, rows.whole, order))

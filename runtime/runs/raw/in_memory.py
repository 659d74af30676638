"""Rows that a caller gives a training: arrays, frames and tuples as arrays by feed, and the rows to validate on.

1. Data in memory becomes a mapping of arrays by feed. A tuple has them in the order of the program's inputs, and the
   columns of a frame have the names of feeds; a program that encodes tables encodes the frame as one.
2. The caller passes the rows to validate on, or a share of the others is taken. When training shuffles, the share is
   chosen by the seed; otherwise it is the last rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, cast

import numpy as np

from runtime.dtypes import Array
from runtime.entries import find_entry
from runtime.errors import DataError, UsageError
from runtime.philox import permutation
from runtime.rows.by_feed import by_feed, is_frame
from runtime.rows.orders import Listed
from runtime.rows.rows import Rows
from runtime.rows.tables.arrow import arrow_columns, is_arrow
from runtime.runs.session import Session

SPLIT_EPOCH: Final = (1 << 64) - 1
"""Epoch whose order of rows tells which are validated on; no training reaches it."""


def data_by_feed(session: Session, entry: str, data: object) -> object:
    """Return data in memory as arrays by feed, and anything else as it is.

    Raises UsageError for arrays that no feed is named for, and DataError for a table that cannot be encoded, or for a
    frame with other columns than an earlier one for the same feed.
    """
    if session.names and isinstance(data, dict):
        data = session.named(cast(dict[str, object], data))
    feeds = feeds_in_order(session, entry)
    if isinstance(data, tuple):
        named = _named(feeds, cast(tuple[object, ...], data))
        session.column_order.note(named)
        return {feed: _array(value) for feed, value in named.items()}
    if type(data) is np.ndarray and len(feeds) == 1:
        return {feeds[0]: data}
    has_table = session.data.is_encoded and not session.data.has_images
    if has_table and (isinstance(data, Mapping | list) or is_frame(data) or is_arrow(data)):
        encoded = _encoded(session, entry, cast(object, data))
        if encoded is not None:
            return encoded
    if is_arrow(cast(object, data)) and not is_frame(cast(object, data)):
        return {name: _listed(column) for name, column in arrow_columns(data)[0].items()}
    session.column_order.note(cast(object, data))
    return by_feed(cast(object, data))


def validation_rows(session: Session, entry: str, evaluate: str, given: object) -> Rows:
    """Return given rows to validate on, for the entry `evaluate`; columns that only `entry` reads are ignored.

    Raises UsageError for data that is neither in memory nor a split's name, and DataError for rows that do not fit.
    """
    if isinstance(given, str) and not session.data.exists:
        raise UsageError(f"validation_data={given!r} names a split, and the program has no data; give (x, y)")
    asked = data_by_feed(session, evaluate if isinstance(given, str) else entry, given)
    if not isinstance(asked, Mapping | str):
        raise UsageError(
            f"validation_data is of type {type(given).__name__}: give (x, y), an array per feed, a frame, "
            "or the name of a split"
        )
    return session.rows(evaluate, _for_entry(session, entry, evaluate, cast(Mapping[str, object] | str, asked)))


def split_rows(
    session: Session, entry: str, evaluate: str, data: object, rows: Rows, share: object, *, shuffle: bool
) -> tuple[Rows, Rows]:
    """Return the rows to train on, and those of the share to validate on.

    Args:
        session: session of the program.
        entry: entry that trains.
        evaluate: entry that evaluates.
        data: arrays by feed that the training was given.
        rows: rows of `data` for the entry that trains.
        share: share of the rows to validate on, between 0 and 1.
        shuffle: choose the share by the seed; otherwise it is the last rows.

    Raises UsageError for a share that is no such number or is not of arrays in memory, DataError if no rows remain.
    """
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise UsageError(f"validation_split={share!r} is not a number between 0 and 1, as 0.2 is")
    if not isinstance(data, Mapping):
        raise UsageError(
            "validation_split takes its rows from arrays in memory; for rows of a file name a split of it, "
            "as in validation_data='test'"
        )
    count = len(rows)
    left = count - math.ceil(count * share - 1e-9)
    if not left:
        raise DataError(
            f"validation_split={share}: {'1 row leaves' if count == 1 else f'{count} rows leave'} none to train on"
        )
    numbers = permutation(int(session.states.arrays["seed"]), SPLIT_EPOCH, count) if shuffle else np.arange(count)
    own = _for_entry(session, entry, evaluate, cast(Mapping[str, object], data))
    return _at(rows, np.sort(numbers[:left])), _at(session.rows(evaluate, own), np.sort(numbers[left:]))


def fold_rows(
    session: Session, entry: str, evaluate: str, data: object, rows: object, fold: object, *, shuffle: bool
) -> tuple[Rows, Rows]:
    """Return the rows to train on, and those of a fold to evaluate on; see `TrainingOptions.fold`.

    Raises UsageError if `fold` is not such a pair or the rows come from a source, DataError for more folds than rows.
    """
    pair = cast(tuple[object, ...], fold) if isinstance(fold, tuple | list) else ()
    if len(pair) != 2 or not all(type(number) is int for number in pair):
        raise UsageError(f"fold={fold!r} is not (i, k), as (1, 5) is for the first of five parts")
    number, count = cast(tuple[int, int], tuple(pair))
    if not 1 <= number <= count or count < 2:
        raise UsageError(f"fold={fold!r}: i is from 1 to k, and k is 2 or more")
    if not isinstance(rows, Rows):
        raise UsageError("fold takes rows of a split or in memory; a source does not say how many rows it has")
    total = len(rows)
    if total < count:
        raise DataError(f"fold={fold!r}: there are {total} rows for {count} folds")
    seed = session.program.seed
    positions = permutation(seed, SPLIT_EPOCH, total) if shuffle else np.arange(total)
    start, stop = (number - 1) * total // count, number * total // count
    own = _for_entry(session, entry, evaluate, cast(Mapping[str, object] | str, data))
    left = np.sort(np.concatenate([positions[:start], positions[stop:]]))
    return _at(rows, left), _at(session.rows(evaluate, own), np.sort(positions[start:stop]))


def is_of_known_length(data: object) -> bool:
    """Return True unless data is a source of rows, whose number is unknown."""
    return data is None or isinstance(data, str | Mapping | tuple | np.ndarray) or is_frame(data) or is_arrow(data)


def _at(rows: Rows, positions: Array) -> Rows:
    return Rows(rows.columns, rows.whole, Listed(rows.order.at(positions)))


def _for_entry(
    session: Session, entry: str, evaluate: str, data: Mapping[str, object] | str
) -> Mapping[str, object] | str:
    """Return data without the columns of feeds that only the entry that trains reads."""
    if isinstance(data, str):
        return data
    known, wanted = session.bindings(entry)[0].feeds, session.bindings(evaluate)[0].feeds
    return {name: values for name, values in data.items() if name in wanted or name not in known}


def feeds_in_order(session: Session, entry: str) -> list[str]:
    """Return the feeds of an entry, in the order in which the program declares its inputs."""
    wanted = session.bindings(entry)[0].feeds
    source = session.program.blocks[find_entry(session.program, entry).source_block]
    return [p.feed for p in source.parameters if p.WhichOneof("source") == "feed" and p.feed in wanted]


def _named(feeds: list[str], arrays: tuple[object, ...]) -> dict[str, object]:
    """Return the arrays of a tuple by the feeds that they are for; raise UsageError for more or fewer."""
    if len(arrays) != len(feeds):
        raise UsageError(
            f"a tuple of {len(arrays)} is given for the feeds {', '.join(feeds) or 'none'}; "
            f"give one array for each, as in data=({', '.join(feeds)}{',' if len(feeds) == 1 else ''})"
        )
    return dict(zip(feeds, arrays, strict=True))


def _array(value: object) -> object:
    """Return a frame or a series as the array of its values, and anything else as it is."""
    if hasattr(value, "to_numpy"):
        array = np.asarray(cast(Any, value).to_numpy())
        return np.asarray(array.tolist()) if array.dtype == object else array
    return value


def _listed(column: Array) -> object:
    return column.tolist() if column.dtype == object else column


def _encoded(session: Session, entry: str, data: object) -> Mapping[str, object] | None:
    """Return the rows of a table as arrays by feed; None for arrays that are encoded already."""
    from runtime.runs.raw.raw_rows import RawRows  # few runs have tables: start-up time

    table = RawRows(session, entry)
    if isinstance(data, Mapping) and table.keys.keys() <= cast(Mapping[str, object], data).keys():
        return None
    return table.encoded(cast(object, data))

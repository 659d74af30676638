"""Steps of an entry with given rows, one at a time.

Calls often pass arrays of the same feeds, dtypes and shapes as earlier ones. The decisions for the first of them are
kept as a `Script`, which later calls follow at once. A script looks at no value; the errors of a step are reported as
for the first call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, cast

import numpy as np

from runtime.dtypes import Array, numpy_dtype
from runtime.entries import BoundEntry
from runtime.errors import DataError, OutOfRange
from runtime.rows.by_feed import named_arrays
from runtime.rows.out_of_range import explained
from runtime.rows.rows import Rows, input_rows
from runtime.runs.session import Session
from runtime.runs.state_locks import StateLock
from runtime.runs.workspaces import Lent

MAX_SCRIPTS: Final = 64
"""Upper bound on the scripts that are kept: ever new shapes are rare, and must not fill the memory."""

_Key = tuple[object, ...]


class Script(NamedTuple):
    """The way to make a step for arrays of certain dtypes and shapes.

    Attributes:
        bound: the entry, bound to the rows of the arrays.
        fetch: the tensors to fetch besides the entry's own.
        trains: True if the step changes states that live on.
        reads_length: True if the entry reads the total number of steps of the run.
    """

    bound: BoundEntry
    fetch: list[str]
    trains: bool
    reads_length: bool


class OneStep:
    """The steps that callers of a session make one by one; threads may make them concurrently."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._scripts: dict[_Key, Script] = {}

    def __call__(self, entry: str | None, given: object, fetch: Sequence[str]) -> dict[str, Array]:
        """Make a step of an entry, the training entry if None, and return its fetches by name.

        Raises DataError for rows that no binding takes. Raises UsageError if the total number of steps is needed and
        unknown, or for rows that are no mapping of arrays by feed.
        """
        key = _key(entry, given, fetch)
        script = None if key is None else self._scripts.get(key)
        if script is not None:
            if script.reads_length:
                self._session.require_length(script.bound)
            return self._make(script, cast(Mapping[str, Array], given), None)
        feeds = named_arrays(given)
        script, rows = self.prepared(entry or self._session.training_entry(), feeds, fetch)
        fetched = self._make(script, None, rows)
        if key is not None and _is_as_fed(script.bound, cast(Mapping[str, Array], feeds)):
            if len(self._scripts) >= MAX_SCRIPTS:
                self._scripts.clear()
            self._scripts[key] = script
        return fetched

    def prepared(self, entry: str, feeds: Mapping[str, object], fetch: Sequence[str]) -> tuple[Script, Rows]:
        """Return the way to make a step for arrays, and the arrays as rows; raise errors as a call does."""
        session = self._session
        bindings = session.fitting(entry, feeds)
        rows = input_rows(bindings[0], feeds)
        bound = next((b for b in bindings if b.rows == len(rows)), None)
        if bound is None:
            sizes = " or ".join(str(b.rows) for b in bindings)
            raise DataError(f"entry {bindings[0].name!r} takes {sizes} rows a step, and {len(rows)} are given")
        session.require_length(bound)
        more = session.tensors(bound, fetch)
        return Script(bound, more, session.trains(bound), session.reads_length(bound)), rows

    def _make(self, script: Script, feeds: Mapping[str, Array] | None, rows: Rows | None) -> dict[str, Array]:
        """Make a step with arrays as they are, or with rows."""
        session, bound = self._session, script.bound
        locks = session.states.locks
        lock: StateLock = locks.exclusive() if script.trains else locks.shared()
        with lock, session.workspaces.lent([bound], script.fetch) as lent:
            if not script.trains:
                lent.reset()
            return _stepped(lent, script, feeds, rows)


def _stepped(lent: Lent, script: Script, feeds: Mapping[str, Array] | None, rows: Rows | None) -> dict[str, Array]:
    executor = lent.executor(script.bound, script.fetch)
    try:
        if feeds is not None:
            executor.step_with(feeds)
        else:
            assert rows is not None, "arrays or rows are given"
            rows.fill(executor.feeds, 0)
            executor.step()
    except OutOfRange as error:
        rows = input_rows(script.bound, feeds or {}) if rows is None else rows
        raise explained(error, script.bound, rows, 0) from None
    return {name: array.copy() for name, array in executor.fetches.items()}


def _key(entry: str | None, given: object, fetch: Sequence[str]) -> _Key | None:
    """Return the key that arrays with the same script share; None for anything but a dictionary of arrays."""
    if type(given) is not dict:
        return None
    feeds = cast(dict[object, object], given)
    words: list[object] = [entry, *fetch] if fetch else [entry]
    for name, array in feeds.items():
        if type(array) is not np.ndarray:
            return None
        found = cast(Array, array)
        words += name, found.dtype, found.shape
    return tuple(words)


def _is_as_fed(bound: BoundEntry, feeds: Mapping[str, Array]) -> bool:
    """Return True if all arrays have the dtypes and shapes of the entry's feeds, so that none is converted."""
    types = {name: feed.type for name, feed in bound.feeds.items()}
    return all(
        array.dtype == numpy_dtype(types[name].dtype)
        and array.dtype.isnative
        and array.shape == types[name].static_shape
        for name, array in feeds.items()
    )

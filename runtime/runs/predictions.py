"""The fetches of entries for any number of given rows.

Calls often pass arrays of the same feeds, dtypes and shapes as earlier ones. The decisions for the first of them are
kept as a *script*, the steps that take such rows, which later calls follow at once. A script looks at no value: where a
step rejects one, the prediction is recomputed from the beginning, which gives the error message.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np

from prograd_proto import program_pb2 as pb
from runtime.dtypes import Array, numpy_dtype
from runtime.engines.engine import Executor
from runtime.entries import BoundEntry
from runtime.errors import DataError, ExecutionError
from runtime.rows.by_feed import is_frame, named_arrays
from runtime.runs.evaluation import run_over, steps_over
from runtime.runs.session import Session
from runtime.runs.untrained import warn_if_untrained

if TYPE_CHECKING:
    from runtime.runs.raw.raw_rows import RawRows

MAX_SCRIPTS: Final = 64
"""Upper bound on the scripts that are kept: ever new shapes are rare, and must not fill the memory."""


class Predictions:
    """The predictions of a session; threads may make them concurrently."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._scripts: dict[_Key, _Script] = {}
        self._raw: dict[str, RawRows] = {}

    def __call__(self, entry: str, x: object) -> dict[str, Array]:
        """Return an entry's fetches by name, for an array for its only feed, or an array per feed, or a frame."""
        key = _key(entry, x)
        script = None if key is None else self._scripts.get(key)
        arrays = None if script is None else self._followed(script, x)
        if arrays is None:
            feeds = self._feeds(entry, x)
            if key is None:
                self._session.column_order.require(feeds)
            arrays = run_over(self._session, entry, self._session.rows(entry, feeds)).arrays
            if key is not None and script is None:
                self._keep(key, entry, cast(Mapping[str, Array], feeds), arrays)
        if not self._session.states.is_told:
            warn_if_untrained(self._session, entry)
        return arrays

    def of_table(self, entry: str, x: object, *, raw: bool | None) -> dict[str, Array] | None:
        """Return the fetches and the predicted values for rows as a table has them; None for arrays for feeds.

        With `raw` None, the rows themselves tell whether they are those of a table.
        """
        if raw is False or (raw is None and not self._may_be_raw(x)):
            return None
        if entry not in self._raw:
            from runtime.runs.raw.raw_rows import RawRows  # few runs have tables: start-up time

            self._raw[entry] = RawRows(self._session, entry)
        rows = self._raw[entry]
        if raw is None and not rows.is_raw(x):
            return None
        from runtime.rows.encoding.scores import warn_of_unanswered  # as above

        arrays = self(entry, rows.encoded(x))
        values = rows.values(arrays)
        warn_of_unanswered(values)
        return arrays | values

    def of_named(self, entry: str, name: str | os.PathLike[str]) -> dict[str, Array]:
        """Return the fetches and the predicted values for the rows of a file, a folder of images, or a split.

        Images have the names of their files as `id`.
        """
        from runtime.rows.encoding.scores import warn_of_unanswered  # few predictions are of files
        from runtime.runs.raw.answers import values_by_name
        from runtime.runs.raw.named_rows import named_rows

        found = named_rows(self._session, entry, name)
        arrays = run_over(self._session, entry, found.rows).arrays
        warn_if_untrained(self._session, entry)
        values = values_by_name(found.answers, arrays)
        warn_of_unanswered(values)
        return ({} if found.names is None else {"id": found.names}) | arrays | values

    def _may_be_raw(self, x: object) -> bool:
        """Return True if rows may be those of a table: most predictions are of arrays, and ask no further."""
        data = self._session.data
        if not data.is_encoded or data.has_images or type(x) is np.ndarray or isinstance(x, tuple):
            return False
        if not isinstance(x, list):
            return True
        rows = cast(list[object], x)
        return bool(rows) and isinstance(rows[0], Mapping)

    def _feeds(self, entry: str, x: object) -> Mapping[str, object]:
        feeds = self._session.bindings(entry)[0].feeds
        if isinstance(x, Mapping) or (len(feeds) != 1 and is_frame(x)):
            return named_arrays(cast(object, x))
        if len(feeds) != 1:
            raise DataError(f"entry {entry!r} has the feeds {', '.join(feeds) or 'none'}; give an array by name")
        return {next(iter(feeds)): x}

    def _followed(self, script: _Script, x: object) -> dict[str, Array] | None:
        """Return the fetches of a script's steps; None if a step fails, whose error another way reports."""
        feeds = cast(Mapping[str, Array], x if type(x) is dict else {script.only: x})
        try:
            return _follow(self._session, script, feeds)
        except ExecutionError:
            return None

    def _keep(self, key: _Key, entry: str, feeds: Mapping[str, Array], arrays: Mapping[str, Array]) -> None:
        script = _script(self._session, entry, feeds, arrays)
        if script is not None:
            if len(self._scripts) >= MAX_SCRIPTS:
                self._scripts.clear()
            self._scripts[key] = script


_Key = tuple[object, ...]


def _key(entry: str, x: object) -> _Key | None:
    """Return the key that arrays with the same script share; None for anything but arrays."""
    if type(x) is np.ndarray:
        return entry, x.dtype, x.shape
    if type(x) is not dict:
        return None
    given = cast(dict[object, Array], x)
    if any(type(array) is not np.ndarray for array in given.values()):
        return None
    return entry, *[(name, array.dtype, array.shape) for name, array in given.items()]


class _Script(NamedTuple):
    """The steps for arrays of certain dtypes and shapes.

    Attributes:
        only: the only feed, if its array has no name.
        bindings: bindings of the steps, each once.
        steps: steps in order, with the first row and the one after the last; further rows of a step repeat the last.
        is_whole: whether the only step takes the arrays as they are.
        fetches: dtype, shape and bytes of each fetch.
    """

    only: str
    bindings: list[BoundEntry]
    steps: list[tuple[BoundEntry, int, int]]
    is_whole: bool
    fetches: list[tuple[str, np.dtype[np.generic], tuple[int, ...], int]]


def _script(session: Session, entry: str, feeds: Mapping[str, Array], arrays: Mapping[str, Array]) -> _Script | None:
    """Return the steps for such arrays, whose fetches these are; None if they need more than copies and steps."""
    bound = session.bindings(entry)[0]
    is_last = all(fetch.over == pb.OVER_LAST for fetch in bound.block.fetches)
    as_fed = all(array.dtype == numpy_dtype(bound.feeds[name].type.dtype) for name, array in feeds.items())
    if not (bound.feeds and is_last and as_fed) or bound.block.updates or session.reads_length(bound):
        return None
    rows = session.rows(entry, feeds)
    [(part, shares), *others] = steps_over(session, entry, rows)
    if others or part.places is not None:
        return None
    steps: list[tuple[BoundEntry, int, int]] = []
    for each, count in shares:
        for _ in range(count):
            start = steps[-1][2] if steps else 0
            steps.append((each, start, min(start + each.rows, len(rows))))
    is_whole = len(steps) == 1 and len(rows) == steps[0][0].rows
    by_row = all(feed.by_row for feed in bound.feeds.values()) and bound.row_names.issuperset(arrays)
    if not (is_whole or by_row):
        return None
    fetches = [(name, array.dtype, array.shape, array.nbytes) for name, array in arrays.items()]
    return _Script(next(iter(feeds)), [each for each, _ in shares], steps, is_whole, fetches)


def fill(executor: Executor, feeds: Mapping[str, Array], start: int, count: int) -> None:
    """Fill the feeds of a step with these rows of arrays; further rows repeat the last one."""
    for name, out in executor.feeds.items():
        out[:count] = feeds[name][start : start + count]
        if count < len(out):
            out[count:] = out[count - 1]


def _follow(session: Session, script: _Script, feeds: Mapping[str, Array]) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for name, dtype, shape, nbytes in script.fetches:
        session.memory.take(nbytes, "the rows of a prediction")
        found[name] = np.empty(shape, dtype)
        session.memory.note(found[name])
    with session.states.locks.shared(), session.workspaces.lent(script.bindings) as lent:
        for bound, start, stop in script.steps:
            executor, count = lent.executor(bound), stop - start
            if script.is_whole:
                _copy(feeds, executor.feeds)
            else:
                fill(executor, feeds, start, count)
            session.stepper.step(executor)
            if script.is_whole:
                _copy(executor.fetches, found)
                continue
            for name, array in executor.fetches.items():
                found[name][start:stop] = array[:count]
    return found


def _copy(arrays: Mapping[str, Array], to: Mapping[str, Array]) -> None:
    for name, out in to.items():
        np.copyto(out, arrays[name])

"""Steps that a loop of the caller makes: prepared once, and called with arrays.

A call with arrays of the dtypes and shapes of the last one copies them to where the step reads them, and makes it.
Inside `with`, the lock on the states and a workspace are kept between calls, and results are views.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from threading import get_ident
from typing import Any, NamedTuple, Self, cast

import numpy as np

from prograd_proto.entry_views import SpelledNames
from runtime.dtypes import Array
from runtime.errors import DataError, OutOfRange, UsageError
from runtime.rows.out_of_range import explained
from runtime.rows.rows import input_rows
from runtime.runs.own_loop.one_step import OneStep, Script
from runtime.runs.session import Session
from runtime.runs.shown.state_view import StateView
from runtime.runs.state_locks import StateLock
from runtime.runs.workspaces import Lent

Made = Mapping[str, Any] | tuple[Any, ...] | Any
"""The return value of a call: all results by name, a tuple of the named ones, or a single result."""


class _Ready(NamedTuple):
    """A step for arrays of certain shapes, in a workspace.

    Attributes:
        lent: the workspace.
        script: the entry, bound to a number of rows.
        step: makes the step.
        feeds: the executor's array for each array of the call.
        rows: for each, the only row of it, if there is one; else the array.
        views: returns what a call returns, with views of the executor's results.
        copies: returns the same with copies.
    """

    lent: Lent
    script: Script
    step: Callable[[], None]
    feeds: tuple[Array, ...]
    rows: tuple[Array, ...]
    views: Callable[[], Made]
    copies: Callable[[], Made]


class OwnSteps:
    """Makes steps of an entry by calls; see `Run.stepper`.

    Attributes:
        feeds: names of the feeds, in the order of arrays that are given by position.
    """

    def __init__(
        self, session: Session, one_step: OneStep, entry: str | None, fetch: str | Sequence[str] | None
    ) -> None:
        self._session, self._one_step, self._names = session, one_step, session.names
        self._entry = entry or session.training_entry()
        bound = session.bindings(self._entry)[0]
        self.feeds = tuple(bound.feeds)
        self._by_row = {name: feed.type.rank for name, feed in bound.feeds.items() if feed.by_row}
        self._fetch = _asked(fetch, session.names)
        more = session.tensors(bound, () if self._fetch is None else _several(self._fetch))
        self._more, self._trains = more, session.trains(bound)
        self._scripts: dict[tuple[tuple[int, ...], ...], Script] = {}
        self._kept: ExitStack | None = None
        self._lent: Lent | None = None
        self._keeper = 0  # the thread inside of `with`
        self._ready: _Ready | None = None

    def __repr__(self) -> str:
        return f"<steps of {self._entry!r}: {', '.join(self.feeds)}>"

    def __enter__(self) -> Self:
        """Keep the states and a workspace for this thread until the end of `with`."""
        if self._kept is not None:
            raise UsageError(f"the steps of {self._entry!r} are inside of with already; make another stepper")
        with ExitStack() as stack:
            stack.enter_context(self._lock())
            self._lent = stack.enter_context(self._session.workspaces.lent([], ()))
            self._kept, self._keeper = stack.pop_all(), get_ident()
        return self

    def __exit__(self, *error: object) -> None:
        kept, self._kept, self._lent, self._keeper = self._kept, None, None, 0
        assert kept is not None, "entered"
        kept.close()

    def __call__(self, *arrays: Any, **named: Any) -> Made:
        """Make a step with an array for each feed, by position or name, and return its results.

        A step of one row takes the row alone, too. Raises DataError for arrays that do not fit, OutOfRange for a
        number that an op refuses.
        """
        if self._lent is not None and self._keeper == get_ident():
            return self._made(self._lent, arrays, named).views()
        if named or self._ready is None or not _fit(self._ready, arrays):
            self._script(self._given(arrays, named))  # which may compile, before the states are locked
        with self._lock(), self._session.workspaces.lent([], ()) as lent:
            return self._made(lent, arrays, named).copies()

    def state(self, name: str) -> Array:
        """Return a state as a view that shows every later step; set it by `run.state[name] = array`.

        Raises UsageError for an unknown name.
        """
        return StateView(self._session.states).memory(self._names.own(name))

    def _lock(self) -> StateLock:
        locks = self._session.states.locks
        return locks.exclusive() if self._trains else locks.shared()

    def _made(self, lent: Lent, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> _Ready:
        """Make a step in a workspace."""
        ready = self._ready
        if ready is None or named or ready.lent is not lent or not _filled(ready, arrays):
            ready = self._other(lent, self._given(arrays, named))
        if not self._trains:
            lent.reset()
        try:
            ready.step()
        except OutOfRange as error:
            rows = input_rows(ready.script.bound, self._given(arrays, named))
            raise explained(error, ready.script.bound, rows, 0) from None
        return ready

    def _other(self, lent: Lent, given: dict[str, Any]) -> _Ready:
        """Prepare a step for arrays that are not as those of the last call, and give it these."""
        script = self._script(given)
        executor = lent.executor(script.bound, script.fetch)
        input_rows(script.bound, given).fill(executor.feeds, 0)
        feeds = tuple(executor.feeds[name] for name in self.feeds)
        is_row = [script.bound.rows == 1 and name in self._by_row for name in self.feeds]
        rows = tuple(feed[0, ...] if one else feed for feed, one in zip(feeds, is_row, strict=True))
        results = executor.fetches
        views, copies = (_reader(self._fetch, results, read) for read in (_view, _copy))
        self._ready = _Ready(lent, script, executor.step, feeds, rows, views, copies)
        return self._ready

    def _given(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arrays of a call by feed, with an axis of rows where those of one row lack it."""
        if len(arrays) > len(self.feeds):
            raise DataError(
                f"entry {self._entry!r} has {len(self.feeds)} feeds, {', '.join(self.feeds)}, and {len(arrays)} arrays "
                "are given"
            )
        given = dict(zip(self.feeds, arrays, strict=False))
        for name, value in named.items():
            own = self._names.own(name)
            if own in given:
                raise DataError(f"the feed {name!r} is given twice, by position and by name")
            given[own] = value
        return {name: self._with_rows(name, value) for name, value in given.items()}

    def _with_rows(self, name: str, value: Any) -> Any:
        if self._by_row.get(name, 0) - 1 != np.ndim(value):
            return value
        return cast(Array, value)[None] if isinstance(value, np.ndarray) else [value]

    def _script(self, given: dict[str, Any]) -> Script:
        """Return the way to make a step for arrays, after a step for their rows is compiled if it is missing."""
        key = tuple(np.shape(value) for value in given.values())
        if key not in self._scripts:
            bound = self._session.fitting(self._entry, given)[0]
            self._session.add_step(self._entry, len(input_rows(bound, given)))
            self._scripts[key] = self._one_step.prepared(self._entry, given, self._more)[0]
        script = self._scripts[key]
        if script.reads_length:
            self._session.require_length(script.bound)
        return script


def _fit(ready: _Ready, arrays: Sequence[Any]) -> bool:
    """Return True if arrays have the shapes of a step; `_filled` compares their dtypes when it copies them."""
    return len(arrays) == len(ready.feeds) and all(
        type(value) is np.ndarray and value.shape in (feed.shape, row.shape)
        for value, feed, row in zip(arrays, ready.feeds, ready.rows, strict=True)
    )


def _filled(ready: _Ready, arrays: Sequence[Any]) -> bool:
    """Copy arrays to where a step reads them; return False for other dtypes or shapes than it has."""
    if len(arrays) != len(ready.feeds):
        return False
    for value, feed, row in zip(arrays, ready.feeds, ready.rows, strict=True):
        if type(value) is not np.ndarray or value.dtype != feed.dtype:
            return False
        if value.shape == feed.shape:
            feed[...] = value
        elif value.shape == row.shape:
            row[...] = value
        else:
            return False
    return True


def _asked(fetch: str | Sequence[str] | None, names: SpelledNames) -> str | tuple[str, ...] | None:
    if fetch is None or isinstance(fetch, str):
        return fetch and names.own(fetch)
    return tuple(map(names.own, fetch))


def _several(fetch: str | tuple[str, ...]) -> tuple[str, ...]:
    return (fetch,) if isinstance(fetch, str) else fetch


def _view(array: Array) -> Callable[[], Any]:
    return (lambda: array) if array.ndim else array.item


def _copy(array: Array) -> Callable[[], Any]:
    return array.copy if array.ndim else array.item


def _reader(
    fetch: str | tuple[str, ...] | None, results: Mapping[str, Array], read: Callable[[Array], Callable[[], Any]]
) -> Callable[[], Made]:
    """Return the function that makes of an executor's results what a call returns."""
    if isinstance(fetch, str):
        return read(results[fetch])
    if fetch is not None:
        several = [read(results[name]) for name in fetch]
        return lambda: tuple([one() for one in several])
    named = [(name, read(array)) for name, array in results.items()]
    return lambda: {name: one() for name, one in named}

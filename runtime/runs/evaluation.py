"""An entry run over rows without training: evaluation and prediction."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Final, NamedTuple

import numpy as np

from prograd_proto import program_pb2 as pb
from prograd_proto.wording import as_asked
from runtime.dtypes import Array
from runtime.engines.engine import Executor
from runtime.entries import BoundEntry
from runtime.errors import DataError, NonFinite, OutOfRange
from runtime.memory.limit import MemoryLimit
from runtime.rows.out_of_range import explained
from runtime.rows.parts import Part, is_ragged
from runtime.rows.rows import Rows
from runtime.runs.metrics import Metrics, Totals, scalar_fetches
from runtime.runs.session import Session
from runtime.runs.workspaces import Lent

ROWS_PER_STEP_TIME: Final = 16
"""Number of rows of a step that takes about as long as a step of one row; fewer remaining rows run one by one."""


_log = logging.getLogger("prograd")


class Results(NamedTuple):
    """The results of an entry run over rows.

    `metrics` are the scalar fetches. `tables` are the arrays that do not count rows, combined over steps as the program
    says. `arrays` are all fetches: concatenated over rows where their leading extent counts rows.
    """

    metrics: Metrics
    tables: dict[str, Array]
    arrays: dict[str, Array]
    steps: int


def run_over(
    session: Session,
    entry: str,
    rows: Rows,
    *,
    fetch: Sequence[str] = (),
    between: Callable[[], None] = lambda: None,
) -> Results:
    """Run an entry over all rows: as many full steps as there are, the rest with smaller bindings.

    If each row of the fetches depends on the same row of the feeds alone, the rest runs in a step that it does not
    fill, as long as that is not much larger. The rows behind it repeat the last row, and their results are dropped.

    The states are those between two steps of a training, and are restored afterwards: the states that the entry updates
    are copies that start at their initial values.

    Args:
        session: session of the program.
        entry: entry of the program.
        rows: rows for all of its feeds.
        fetch: tensors to fetch besides those that the entry declares, or names of these.
        between: called before each step; an exception from it ends the run.

    Raises:
        UsageError: there is no such entry, or no tensor of such a name.
        DataError: rows are left that no binding takes.
    """
    bindings = session.bindings(entry)
    session.require_length(bindings[0])
    fetch = session.tensors(bindings[0], fetch)
    parts = steps_over(session, entry, rows, fetch)
    with session.apart([bound for _, shares in parts for bound, _ in shares], fetch) as lent:
        totals = Totals(scalar_fetches(bindings[0]))
        collected = _Collected(bindings[0], fetch, len(rows), session.memory)
        for part, shares in parts:
            _run_part(session, lent, part, shares, fetch, totals, collected, between)
        arrays, metrics = collected.result(len(rows)), totals.result()
    _warn_of_nan(session, entry, metrics)
    tables = {f.name: arrays[f.name] for f in bindings[0].block.fetches if f.name not in bindings[0].row_names}
    tables = {name: array for name, array in tables.items() if name not in metrics}
    return Results(metrics, tables, arrays, sum(steps for _, shares in parts for _, steps in shares))


def _warn_of_nan(session: Session, entry: str, metrics: Metrics) -> None:
    """Log a warning for metrics that are NaN, once for an entry of a session."""
    names = [name for name, value in metrics.items() if math.isnan(value)]
    if names and entry not in session.told_of_nan:
        session.told_of_nan.add(entry)
        _log.warning(
            "entry %r: %s NaN; the rows may lack a number, or the weights may be too large; "
            "%s names the op that makes the first one",
            entry,
            f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}",
            as_asked("--check-nan", "check_nan=True"),
        )


def steps_over(
    session: Session, entry: str, rows: Rows, fetch: Sequence[str] = ()
) -> list[tuple[Part, list[tuple[BoundEntry, int]]]]:
    """Return the rows by length, each with its bindings and their numbers of steps; raise errors as `run_over` does."""
    first = session.bindings(entry)[0]
    are_left = len(session.lengths(entry)) > 1 or len(rows) % first.rows or is_ragged(rows)
    row_wise = bool(are_left) and session.is_row_wise(first, fetch)
    parts = session.parts(entry, rows, apart=row_wise)
    return [(part, _shares(part.bindings, len(part.rows), may_fill_up=row_wise)) for part in parts]


def _run_part(
    session: Session,
    lent: Lent,
    part: Part,
    shares: Sequence[tuple[BoundEntry, int]],
    fetch: Sequence[str],
    totals: Totals,
    collected: _Collected,
    between: Callable[[], None],
) -> None:
    """Make the steps of rows of one length, and collect their fetches."""
    rows = part.rows
    count = sum(bound.rows * steps for bound, steps in shares)
    rows_of_steps = rows
    if count != len(rows):
        from runtime.rows.filled_up import filled_up  # needed only where rows remain: start-up time

        rows_of_steps = filled_up(rows, count)

    def make(step: _Step) -> Mapping[str, Array]:
        return _made(session, step, rows, rows_of_steps)

    is_stateless = not any(bound.block.updates for bound, _ in shares)
    steps = _steps(lent, shares, fetch)
    for step, fetched in _in_order(session, steps, make, between, is_stateless=is_stateless):
        count = min(step.bound.rows, len(rows) - step.start)
        places = None if part.places is None else part.places[step.start : step.start + count]
        totals.add([totals.of_step(fetched)], count)
        collected.add(fetched, count, places)


class _Step(NamedTuple):
    """A step of an evaluation: its binding, the executor, and its first row."""

    bound: BoundEntry
    executor: Executor
    start: int


def _steps(lent: Lent, shares: Sequence[tuple[BoundEntry, int]], fetch: Sequence[str]) -> Iterator[_Step]:
    start = 0
    for bound, number in shares:
        executor = lent.executor(bound, fetch)
        for _ in range(number):
            yield _Step(bound, executor, start)
            start += bound.rows


def _in_order(
    session: Session,
    steps: Iterator[_Step],
    make: Callable[[_Step], Mapping[str, Array]],
    between: Callable[[], None],
    *,
    is_stateless: bool,
) -> Iterator[tuple[_Step, Mapping[str, Array]]]:
    """Yield each step with its fetches; several ranks make the steps of an entry that updates no state."""
    group = session.group
    if group is not None and group.size > 1 and is_stateless:
        from runtime.ranks.spread import spread  # few runs have several processes

        yield from spread(group, steps, make, lambda step: step.executor.fetches, between)
        return
    for step in steps:
        between()
        yield step, make(step)


def _made(session: Session, step: _Step, rows: Rows, rows_of_steps: Rows) -> Mapping[str, Array]:
    """Make a step and return its fetches."""
    bound, executor, start = step
    rows_of_steps.fill(executor.feeds, start)
    try:
        session.stepper.step(executor)
    except NonFinite as error:
        fed, bad = rows.named(start, bound.rows), rows.nonfinite(start, bound.rows)
        raise NonFinite(f"entry {bound.name!r}: {bad}{error}{fed}", error.step) from None
    except OutOfRange as error:
        raise explained(error, bound, rows, start) from None
    return executor.fetches


def _shares(bindings: Sequence[BoundEntry], count: int, *, may_fill_up: bool) -> list[tuple[BoundEntry, int]]:
    """Return bindings with their numbers of steps for all rows, the larger ones first; DataError if rows remain."""
    shares: list[tuple[BoundEntry, int]] = []
    rest = count
    for i, bound in enumerate(bindings):
        steps, rest = divmod(rest, bound.rows)
        smaller = bindings[i + 1].rows if i + 1 < len(bindings) else 0
        if may_fill_up and rest > max(smaller, bound.rows // ROWS_PER_STEP_TIME):
            steps, rest = steps + 1, 0
        if steps:
            shares.append((bound, steps))
    if not count:
        raise DataError(f"entry {bindings[0].name!r}: there are no rows")
    if rest:
        sizes = " or ".join(str(bound.rows) for bound in bindings)
        raise DataError(f"entry {bindings[0].name!r} takes {sizes} rows a step, and of {count} rows {rest} are left")
    return shares


class _Collected:
    """Fetched arrays over steps: concatenated where they have rows, else the sum, the mean or the last.

    Short rows are padded with zeros where others are longer.
    """

    def __init__(self, bound: BoundEntry, fetch: Sequence[str], rows: int, memory: MemoryLimit) -> None:
        """Begin for `rows` rows in all; `memory` is asked before the arrays are allocated."""
        fetches = [*((f.name, f.over) for f in bound.block.fetches), *((name, pb.OVER_LAST) for name in fetch)]
        by_row = bound.row_names
        self._over = {name: over for name, over in fetches if name not in by_row}
        self._joined = frozenset(n for n, over in fetches if n in by_row and over == pb.OVER_LAST)
        self._rows: dict[str, Array] = {}
        tensors = {f.name: f.tensor for f in bound.block.fetches} | {name: name for name in fetch}
        self._longest = {name: bound.types[tensor].static_shape for name, tensor in tensors.items()}
        self._count = rows
        self._done = 0
        self._memory = memory
        self._sums: dict[str, Array] = {}
        self._last: dict[str, Array] = {}

    def add(self, fetched: Mapping[str, Array], rows: int, places: Array | None = None) -> None:
        """Add the fetches of a step of `rows` rows, behind the earlier ones or at these positions."""
        for name, array in fetched.items():
            if name in self._joined:
                self._place(name, array[:rows], places)
            elif self._over.get(name) in (pb.OVER_SUM, pb.OVER_MEAN):
                wide = array.astype(np.float64) if array.dtype.kind == "f" or self._mean(name) else array
                self._sums[name] = self._sums.get(name, 0) + wide * (rows if self._mean(name) else 1)
        self._last = dict(fetched)
        self._done += rows

    def result(self, rows: int) -> dict[str, Array]:
        """Return the arrays after `rows` rows in all."""
        rest = {name: array for name, array in self._last.items() if name not in self._joined}
        self._memory.take(sum(array.nbytes for array in rest.values()), "the results")
        arrays = {name: array.copy() for name, array in rest.items()}
        for array in arrays.values():
            self._memory.note(array)
        for name, total in self._sums.items():
            arrays[name] = np.asarray(total / rows if self._mean(name) else total).astype(arrays[name].dtype)
        return {name: self._rows[name] if name in self._rows else arrays[name] for name in self._last}

    def _place(self, name: str, array: Array, places: Array | None) -> None:
        if name not in self._rows:
            shape = (self._count, *(array.shape if places is None else self._longest[name])[1:])
            self._memory.take(prod(shape) * array.itemsize, f"the rows of {name!r}")
            self._rows[name] = (
                np.zeros(shape, array.dtype) if shape[1:] != array.shape[1:] else np.empty(shape, array.dtype)
            )
            self._memory.note(self._rows[name])
        rows = slice(self._done, self._done + len(array)) if places is None else places
        self._rows[name][(rows, *(slice(extent) for extent in array.shape[1:]))] = array

    def _mean(self, name: str) -> bool:
        return self._over.get(name) == pb.OVER_MEAN

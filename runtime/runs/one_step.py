"""One step of an entry with rows that are given, by itself."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

from runtime.dtypes import Array
from runtime.entries import BoundEntry
from runtime.errors import DataError, OutOfRange
from runtime.rows.rows import given_rows
from runtime.runs.session import Session
from runtime.runs.workspaces import Lent


def one_step(session: Session, entry: str, feeds: Mapping[str, object], fetch: Sequence[str]) -> dict[str, Array]:
    """What a step fetches; it changes the states if the entry trains.

    Raises DataError for rows that no binding takes, UsageError if nobody has said how many steps there will be.
    """
    bindings = session.fitting(entry, feeds)
    rows = given_rows(bindings[0], feeds)
    bound = next((b for b in bindings if b.rows == len(rows)), None)
    if bound is None:
        sizes = " or ".join(str(b.rows) for b in bindings)
        raise DataError(f"entry {bindings[0].name!r} takes {sizes} rows a step, and {len(rows)} are given")
    session.require_length(bound)
    more = session.tensors(bound, fetch)
    with _lent(session, bound, more) as lent:
        executor = lent.executor(bound, more)
        rows.fill(executor.feeds, 0)
        try:
            executor.step()
        except OutOfRange as error:
            raise OutOfRange(f"{error}{rows.holding(error.number, 0, bound.rows)}", error.number) from None
        return {name: array.copy() for name, array in executor.fetches.items()}


@contextmanager
def _lent(session: Session, bound: BoundEntry, fetch: Sequence[str]) -> Generator[Lent]:
    if not session.trains(bound):
        with session.apart([bound], fetch) as lent:
            yield lent
        return
    with session.states.turns.alone(), session.workspaces.lent([bound], fetch) as lent:
        yield lent

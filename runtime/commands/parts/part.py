"""The rows of a part of a batch prediction: the option `--part I/N` of `execute`.

1. The rows are cut where one process begins a step, so each step has the rows that it has there.
2. Rows that do not fill a step are the last ones, and belong to the last part.

So the parts, one after another, have every bit that one process computes.
"""

from __future__ import annotations

from prograd_proto import program_pb2 as pb
from runtime.entries import BoundEntry
from runtime.errors import UsageError
from runtime.rows.orders import Listed
from runtime.rows.parts import is_ragged
from runtime.rows.rows import Rows
from runtime.runs.session import Session


def rows_of_part(session: Session, entry: str, rows: Rows, part: tuple[int, int]) -> Rows:
    """Return the rows of part `part[0]` of `part[1]`, counted from 1.

    Raises UsageError if the results of the entry are not those of rows, or if there are fewer steps than parts.
    """
    require_rows(session, entry, rows)
    bound = session.bindings(entry)[0]
    number, parts = part
    steps = steps_of_rows(bound, rows)
    if parts > steps:
        raise UsageError(f"--part {number}/{parts}: the rows make {steps} steps of {bound.rows}; ask for fewer parts")
    first, stop = ((number - i) * steps // parts * bound.rows for i in (1, 0))
    return Rows(rows.columns, rows.whole, Listed(rows.order.numbers(first, min(stop, len(rows)) - first)))


def steps_of_rows(bound: BoundEntry, rows: Rows) -> int:
    """Return the number of steps that rows make, the last of which may be shorter."""
    return -(-len(rows) // bound.rows)


def require_rows(session: Session, entry: str, rows: Rows) -> None:
    """Raise UsageError unless the results of an entry are those of rows of one length, so that parts can be joined."""
    bound = session.bindings(entry)[0]
    for fetch in bound.block.fetches:
        if fetch.name not in bound.row_names or fetch.over != pb.OVER_LAST:
            raise UsageError(
                f"the entry {entry!r} has {fetch.name!r} for all rows together, which parts do not have; parts are for "
                "entries that give results for each row, as predictions do, and --mpi shares any entry"
            )
    if len(session.lengths(entry)) > 1 or is_ragged(rows):
        raise UsageError(f"the entry {entry!r} takes rows by their length, not in their order; --mpi shares its steps")

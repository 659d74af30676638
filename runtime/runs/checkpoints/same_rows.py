"""The check that a run goes on with the rows that it began with: otherwise no run could repeat its result."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from prograd_proto.wording import as_asked
from runtime.errors import DataError
from runtime.rows.fingerprint import fingerprint
from runtime.rows.rows import Rows
from runtime.runs.position import Position
from runtime.runs.session import Session

if TYPE_CHECKING:
    from runtime.rows.streamed import Streamed

_PURPOSE: Final = {"train": "trains on", "evaluate": "is evaluated on"}
_log = logging.getLogger("prograd")


def fingerprints(rows: Rows | Streamed, evaluated: Rows | None, *, shuffled: bool) -> dict[str, str]:
    """Return the fingerprints of the rows to "train" and to "evaluate" on; rows of a source have a cursor instead."""
    found: dict[str, str] = {}
    if isinstance(rows, Rows):
        found["train"] = fingerprint(rows, shuffled=shuffled)
    if evaluated is not None:
        found["evaluate"] = fingerprint(evaluated, shuffled=False)
    return found


def require_same_rows(session: Session, position: Position, found: dict[str, str], *, change: bool) -> None:
    """Note the rows of a run for its checkpoints; a run from a checkpoint needs the rows that the checkpoint names.

    Checkpoints of older versions name no rows: a message says so. With `change` the run goes on with the other rows.

    Raises DataError for other rows.
    """
    if position.is_resumed and not change:
        _require_equal(position.rows_sha256, found, session)
    position.rows_sha256, position.is_resumed = found, False


def _require_equal(began: dict[str, str], found: dict[str, str], session: Session) -> None:
    for purpose in found:
        if purpose in began and began[purpose] != found[purpose]:
            raise DataError(
                f"the rows that the run {_PURPOSE[purpose]}{_where(session)} are not those that it began with; give "
                f"these, or ask for the change: {as_asked('--change-data', 'train(change_data=True)')}"
            )
    if not began and session.data.given is not None:
        _log.info("the run goes on with the rows of %s; nobody knows if earlier steps had the same", session.data.given)


def _where(session: Session) -> str:
    return f", of {session.data.given}," if session.data.given is not None else ""

"""A warning for entries that compute with values that were not trained, loaded or set, which is rarely intended."""

from __future__ import annotations

import logging

from runtime.runs.session import Session

_log = logging.getLogger("prograd")


def computes_with_initial_values(session: Session, entry: str) -> bool:
    """Return True if an entry reads a parameter that still has its initial value, which was not read from a file."""
    states = session.states
    if states.were_given or int(states.arrays["step"]):
        return False
    made_up = {s.name for s in session.program.states if s.trainable and s.WhichOneof("initial") == "op"}
    return any(parameter.state in made_up for parameter in session.bindings(entry)[0].block.parameters)


def warn_if_untrained(session: Session, entry: str) -> None:
    """Log a warning of that, once for a session."""
    if not session.states.is_told and computes_with_initial_values(session, entry):
        session.states.is_told = True
        _log.warning("nothing was trained, loaded or set: the entry %r computes with initial values", entry)

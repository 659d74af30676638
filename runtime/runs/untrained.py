"""A warning for uses of parameters that were not trained, loaded or set, which are rarely intended."""

from __future__ import annotations

import logging

from prograd_proto import program_pb2 as pb
from prograd_proto.wording import as_asked
from runtime.runs.session import Session
from runtime.runs.states import States

_log = logging.getLogger("prograd")


def warn_if_untrained(session: Session, entry: str) -> None:
    """Log a warning if an entry reads initial values, once for a session; see `warn_of_initial_values`."""
    if not session.states.is_told:
        what = f"the entry {entry!r} computes with initial values"
        warn_of_initial_values(session.program, session.states, what, session.bindings(entry)[0].block)


def warn_of_initial_values(
    program: pb.ProgramDesc, states: States, what: str, block: pb.BlockDesc | None = None
) -> None:
    """Log a warning, once for some states, if a parameter still has its initial value, and that from no file.

    Args:
        program: program of the states.
        states: states of a run.
        what: clause that says what the initial values become.
        block: block that reads the parameters in question; by default these are all.
    """
    if states.is_told or states.were_given or int(states.arrays["step"]):
        return
    made_up = {s.name for s in program.states if s.trainable and s.WhichOneof("initial") == "op"}
    read = made_up if block is None else made_up & {parameter.state for parameter in block.parameters}
    if read:
        states.is_told = True
        text = as_asked("nothing was loaded: %s; --load takes those of a run", "nothing was trained, loaded or set: %s")
        _log.warning(text, what)

"""A run as one object for `pickle` and `copy`: its program, its options, all states and its position.

Unpickling makes a new run with the same states. It reads no file, so a run moves between processes that share no
folder; rows of the program's own file are read from the folder of the run when they are used. As with any pickle, load
none from a stranger: `Run.save` writes a file that runs no code.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

from runtime.dtypes import Array
from runtime.errors import UsageError
from runtime.memory.limit import MemoryLimit
from runtime.runs.position import Position
from runtime.runs.session import Compiled, Session
from runtime.runs.standing import Standing

if TYPE_CHECKING:
    from runtime.runs.shown.training_result import TrainingResult


class PickledRun(NamedTuple):
    """The content of a pickle.

    Attributes:
        program: the message in its canonical bytes.
        sha256: hash of the program, before steps were added to it.
        compiled: the result of `compile` that the run was made of, which can add steps; None without.
        folder: folder of the files that the program names.
        options: options of the run.
        states: all states by name.
        were_given: True if states were loaded or set.
        position: position of the training.
        done: number of steps of a training that ran to its end.
        had_rows: True if the last training named its rows.
        result: result of the last training.
    """

    program: bytes
    sha256: str
    compiled: Compiled | None
    folder: str
    options: dict[str, Any]
    states: dict[str, Array]
    were_given: bool
    position: Position
    done: int
    had_rows: bool
    result: TrainingResult | None


def pickled(
    session: Session, standing: Standing, folder: str, options: dict[str, Any], compiled: Compiled | None
) -> PickledRun:
    """Return the content for a run; raise UsageError while it trains, and for one of several processes."""
    standing.require_no_training("pickle")
    states = session.states
    if session.group is not None:
        raise UsageError("pickle: the states of this run are in several processes; run.save writes them to one file")
    states.require()
    with states.locks.shared():
        return PickledRun(
            session.program.SerializeToString(deterministic=True),
            session.sha256,
            compiled,
            folder,
            {name: _plain(value) for name, value in options.items()},
            {name: array.copy() for name, array in states.arrays.items()},
            states.were_given,
            deepcopy(standing.position),
            standing.done,
            standing.had_rows,
            standing.result,
        )


def put_into(content: PickledRun, session: Session, standing: Standing) -> None:
    """Give a new run the states and the position of the content."""
    states = session.states
    for name, array in content.states.items():
        states.put(name, array)
    states.are_given(content.states)
    states.were_given = content.were_given
    vars(session)["sha256"] = content.sha256
    standing.position, standing.result = content.position, content.result
    standing.done, standing.had_rows = content.done, content.had_rows


def _plain(value: object) -> object:
    """Return an option as it can be pickled: an account of memory by its limit."""
    return value.limit if isinstance(value, MemoryLimit) else value

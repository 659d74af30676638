"""A run as one object for `pickle` and `copy`: its program, its options, all states and its position.

Unpickling makes a new run with the same states. It reads no file, so a run moves between processes that share no
folder; rows of the program's own file are read from the folder of the run when they are used. As with any pickle, load
none from a stranger: `Run.save` writes a file that runs no code.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

from prograd_proto import program_pb2 as pb
from runtime.dtypes import Array
from runtime.errors import UsageError
from runtime.memory.limit import MemoryLimit
from runtime.runs.position import Position

if TYPE_CHECKING:
    from runtime.runs.run import Compiled, Run
    from runtime.runs.shown.training_result import TrainingResult


class PickledRun(NamedTuple):
    """The content of a pickle.

    Attributes:
        kind: the class of the run.
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

    kind: type[Run]
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


def pickled(run: Run, folder: str, options: dict[str, Any], compiled: Compiled | None) -> PickledRun:
    """Return the content for a run; raise UsageError while it trains, and for one of several processes."""
    run.standing.require_no_training("pickle")
    if run.session.group is not None:
        raise UsageError("pickle: the states of this run are in several processes; run.save writes them to one file")
    run.states.require()
    standing = run.standing
    with run.states.locks.shared():
        return PickledRun(
            type(run),
            run.program.SerializeToString(deterministic=True),
            run.sha256,
            compiled,
            folder,
            {name: _plain(value) for name, value in options.items()} | {"settings": dict(run.settings.given)},
            {name: array.copy() for name, array in run.states.arrays.items()},
            run.states.were_given,
            deepcopy(standing.position),
            standing.done,
            standing.had_rows,
            standing.result,
        )


def unpickled(content: PickledRun) -> Run:
    """Return a run with that content."""
    program = pb.ProgramDesc.FromString(content.program)
    run = content.kind(program, content.folder, **content.options)
    for name, array in content.states.items():
        run.states.put(name, array)
    run.states.are_given(content.states)
    run.states.were_given = content.were_given
    run.compiled = content.compiled
    vars(run.session)["sha256"] = content.sha256
    standing = run.standing
    standing.position, standing.result = content.position, content.result
    standing.done, standing.had_rows = content.done, content.had_rows
    return run


def _plain(value: object) -> object:
    """Return an option as it can be pickled: an account of memory by its limit."""
    return value.limit if isinstance(value, MemoryLimit) else value

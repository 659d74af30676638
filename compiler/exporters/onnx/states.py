"""The states of a program as arrays: its initial values, those of a file, or those of a run."""

# pyright: basic
# runs are recognised by what they have.

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compiler.build.compiled import Compiled
from compiler.build.program import Program
from compiler.build.well_formed import well_formed
from compiler.errors import CompileError
from prograd_proto import program_pb2 as pb
from runtime.runs.run import Run, load


def program_and_states(source: Any, states: str | os.PathLike[str] | None) -> tuple[pb.ProgramDesc, Mapping[str, Any]]:
    """Return a program and the arrays of its states by name.

    Args:
        source: the path of a program file, a Program, what its `compile` returned, or a Run, whose states are taken.
        states: a file of states in place of the initial values; None for those.

    Raises CompileError for another source, DataError for a file of states that does not fit.
    """
    run = _run(source)
    if states is not None:
        run.load(states)
    run.states.require()
    return run.program, dict(run.states.arrays)


def _run(source: Any) -> Run:
    if isinstance(source, Run):
        return source
    if isinstance(source, Program):
        sizes: dict[str, Any] = dict.fromkeys(source.symbols, 1)
        source = source.compile(**sizes)
    if isinstance(source, Compiled):
        return Run(source, engine="reference", threads=1)
    if isinstance(source, str | os.PathLike):
        well_formed(os.fspath(source))  # a run checks the blocks that run, and those as built are exported
        return load(Path(source), engine="reference", threads=1)
    raise CompileError(
        f"to_onnx: a program is a path, a Program, what compile returned, or a Run, not {type(source).__name__}"
    )

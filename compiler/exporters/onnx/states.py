"""The run whose states are exported: with initial values, those of a file, or its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from compiler.build.compiled import Compiled
from compiler.build.program import Program
from compiler.build.well_formed import well_formed
from compiler.errors import CompileError
from runtime.runs.run import Run, load


def run_of(source: Any, states: str | os.PathLike[str] | None) -> Run:
    """Return a run of a program, with its states.

    Args:
        source: the path of a program file, a Program, what its `compile` returned, or a Run, whose states are taken.
        states: a file of states in place of the initial values; None for those.

    Raises CompileError for another source, DataError for a file of states that does not fit.
    """
    run = _run(source)
    if states is not None:
        run.load(states)
    run.states.require()
    return run


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

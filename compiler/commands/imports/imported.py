"""Imported programs: their names, and their files."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from compiler.build.program import Program
from compiler.commands.chosen_entry import sizes_given
from compiler.commands.notes import note_weights
from runtime.command_line.results import put_result


def name_of(output: str) -> str | None:
    """Return the name of a program: that of its file, so that programs in one folder share no file of weights."""
    return re.sub(r"\W", "_", Path(output).stem) or None


def write_imported(program: Program, options: argparse.Namespace, **sizes: int) -> None:
    """Write a program with its weights; a symbol without a size has 1."""
    sizes = dict.fromkeys(program.symbols, 1) | sizes | sizes_given(options.bind)
    compiled = program.compile(mixed=options.mixed, qat=None, folder=Path(options.output).parent, **sizes)
    compiled.save(options.output, force=options.force)
    note_weights(options, compiled.arrays)
    states = sum(bool(state.imported.names) for state in compiled.desc.states)
    put_result(options, "OK", [("states", str(states)), ("program_sha256", compiled.sha256)])

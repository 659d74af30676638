"""The verb `compiler quantize`: writes a program whose weights are codes of few bits."""

from __future__ import annotations

import argparse
from pathlib import Path

from compiler.build.program import Program
from compiler.commands.imports.named import name_of
from compiler.commands.notes import note
from compiler.errors import UsageError
from registry import OpError
from runtime.command_line.results import put_result
from runtime.runs.run import load


def quantize(options: argparse.Namespace) -> None:
    """Read the values, rewrite the program, and write it with its weights beside it."""
    program = Program.load(options.program)
    run = load(Path(options.program), engine="reference", threads=1)
    if options.load is not None:
        run.load(options.load, only=options.only)
    run.states.require()
    trained = "train" in run.entries
    program.name = name_of(options.output) or program.name
    try:
        weights = program.quantize(options.weights, keep=options.keep, values=run.states.arrays)
    except OpError as error:
        raise UsageError(str(error).partition("quantize: ")[2] or str(error)) from None
    compiled = program.compile(folder=Path(options.output).parent)
    compiled.save(options.output, force=options.force)
    if trained and "train" not in compiled.entries:
        note(options, f"note: {options.program} trained these weights, and {options.output} trains nothing")
    for name in compiled.arrays:
        note(options, f"note: the weights are in {name}, which must lie beside {options.output}")
    put_result(options, "OK", [("weights", str(len(weights))), ("program_sha256", compiled.sha256)])

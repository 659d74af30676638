"""The verb `compiler quantize`: writes a program whose weights are codes of few bits."""

from __future__ import annotations

import argparse
from pathlib import Path

from compiler.build.program import Program
from compiler.commands.imports.imported import name_of
from compiler.commands.notes import note, note_weights
from compiler.errors import UsageError
from compiler.quantization.forms import Calibration
from compiler.quantization.integers import FORM, learned
from compiler.quantization.report import ranges_report, report
from registry import OpError
from runtime.command_line.results import put_result
from runtime.command_line.streams import put
from runtime.runs.run import load
from runtime.runs.untrained import warn_of_initial_values


def quantize(options: argparse.Namespace) -> None:
    """Read the values, rewrite the program, and write it with its weights beside it."""
    program = Program.load(options.program)
    has_learned = bool(learned(program.states))
    form = options.weights or (FORM if has_learned or options.data is not None or options.split is not None else "q8_0")
    _require_fitting(options, form, has_learned=has_learned)
    more = {} if form == FORM else {"engine": "reference"}
    run = load(Path(options.program), threads=1, data=options.data, **more)
    if options.load is not None:
        run.load(options.load, only=options.only)
    run.states.require()
    trained = "train" in run.entries
    program.name = name_of(options.output) or program.name
    calibration = dict(run=run, rows=options.split, percentile=options.percentile) if form == FORM else {}
    try:
        weights = program.quantize(form, keep=options.keep, values=run.states.arrays, **calibration)
    except OpError as error:
        raise UsageError(str(error).partition("quantize: ")[2] or str(error)) from None
    compiled = program.compile(folder=Path(options.output).parent)
    compiled.save(options.output, force=options.force)
    warn_of_initial_values(run.program, run.states, "the codes stand for initial values")
    if trained and "train" not in compiled.entries:
        note(options, f"note: {options.program} trained these weights, and {options.output} trains nothing")
    note_weights(options, compiled.arrays)
    if form == FORM:
        small = load(Path(options.output), threads=1, data=options.data)
        lines = report(run, small, Calibration(run).entry, weights, options.split)
        for line in ranges_report(small, weights) if has_learned else lines:
            put(line)
    put_result(options, "OK", [("weights", str(len(weights))), ("program_sha256", compiled.sha256)])


def _require_fitting(options: argparse.Namespace, form: str, *, has_learned: bool) -> None:
    """Refuse options of int8 beside another form, and those that a program has learned."""
    given = [name for name in ("data", "split", "percentile") if getattr(options, name) is not None]
    if has_learned and form != FORM:
        raise UsageError(f"--weights {form}: {options.program} was trained for {FORM}; leave --weights out")
    if has_learned and given:
        raise UsageError(f"--{given[0]} is for ranges, and {options.program} has learned them; leave it out")
    if has_learned and options.keep:
        raise UsageError(f"--keep is for `compiler compile --qat`, and {options.program} is trained; leave it out")
    if form != FORM and given:
        raise UsageError(f"--{given[0]} is for --weights {FORM}, and not for {form}; leave one of them out")

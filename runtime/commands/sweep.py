"""The verb `sweep`: run a program with several values of its settings, concurrently, and print one table."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from time import perf_counter
from typing import TextIO

from prograd_proto import program_pb2 as pb
from prograd_proto.files import load
from prograd_proto.settings import settings_among
from runtime.check.settings import check_settings
from runtime.command_line.ending import EXIT_DONE, EXIT_FAILED
from runtime.command_line.outputs import require_free
from runtime.command_line.results import put_result
from runtime.command_line.streams import put
from runtime.commands.sweeps.runs import Number, Outcome, Trial, outcomes, trials
from runtime.commands.sweeps.seeds import seed_table
from runtime.commands.sweeps.table import as_json, in_order, judged_by, table
from runtime.errors import UsageError
from runtime.files.output import require_form, unwritable
from runtime.runs.interrupts import Interrupted
from runtime.runs.settings import checked_setting

MOST = 10_000
"""Upper bound on the runs of one sweep."""

_PASSED = "entry steps epochs data split load threads schedule spill engine math max-memory max-time".split()  # noqa: SIM905 - words, one after another


def sweep(options: argparse.Namespace) -> int:
    """Run a program with every combination of settings and seeds; the code is 1 if a run failed."""
    start = perf_counter()
    require_free([options.results], force=options.force)
    if options.results is not None:
        require_form(options.results, ".jsonl", "results")
    program = load(options.program)
    check_settings(program)
    choices = _choices(options, program)
    begin = program.seed if options.seed is None else options.seed
    seeds = [begin + i for i in range(options.seeds)]
    if seeds[-1] >= 1 << 63:
        raise UsageError(f"--seeds {options.seeds}: the seeds from {begin} on leave 64 bits")
    asked = trials(options.program, choices, seeds, _passed(options))
    if len(asked) > MOST:
        raise UsageError(f"these are {len(asked)} runs; a sweep has at most {MOST}")
    done: list[Outcome] = []
    try:
        _run(options, asked, done)
    except Interrupted as stop:
        _show(options, program, done)
        raise Interrupted(stop.number, f"interrupted after {len(done)} of {len(asked)} runs") from None
    _show(options, program, done)
    failed = sum(outcome.code != 0 for outcome in done)
    fields: list[tuple[str, object]] = [("runs", len(done)), ("failed", failed)]
    name, _ = judged_by(program, done)
    if failed < len(done) and name:
        best = in_order(program, done)[0]
        fields += [("best", best.trial.number), (name, best.fields.get(name, "none"))]
    put_result(options, "FAILED" if failed else "OK", [*fields, ("wall", f"{perf_counter() - start:.3f}")])
    return EXIT_FAILED if failed else EXIT_DONE


def _show(options: argparse.Namespace, program: pb.ProgramDesc, done: Sequence[Outcome]) -> None:
    if done and not options.json:
        for line in table(program, done):
            put(line)
        for place, line in enumerate(seed_table(program, done)):
            put(line if place else f"\n{line}")


def _run(options: argparse.Namespace, asked: Sequence[Trial], done: list[Outcome]) -> None:
    with ExitStack() as stack:
        path: Path | None = options.results
        file = None if path is None else stack.enter_context(_opened(path))
        options.interrupts.hold()  # from here on there are runs that must be ended first
        found = stack.enter_context(closing(outcomes(asked, options.jobs, options.interrupts.check)))
        for outcome in found:
            done.append(outcome)
            line = json.dumps(as_json(outcome))
            if file is not None and path is not None:
                _write(file, path, line)
            if options.json:
                put(line)
            if outcome.error:
                options.say(f"run {outcome.trial.number}, {outcome.trial}, failed: {outcome.error}")
            elif not options.quiet:
                options.say(f"run {outcome.trial.number}, {outcome.trial}, is done: {len(done)} of {len(asked)}")


def _choices(options: argparse.Namespace, program: pb.ProgramDesc) -> dict[str, list[Number]]:
    """Return values by setting; raise UsageError for a setting that does not exist, or a value out of its range."""
    descs = {state.name: state for state in settings_among(program.states)}
    found: dict[str, list[Number]] = {}
    for name, numbers in options.choices:
        if name in found:
            raise UsageError(f"--set {name}: the setting is given twice; give all its values at once, as in 1e-3,1e-4")
        found[name] = list(dict.fromkeys(checked_setting(descs, name, number) for number in numbers))
    return found


def _passed(options: argparse.Namespace) -> list[str]:
    """Return the options that every run gets as well."""
    words: list[str] = []
    for name in _PASSED:
        value = getattr(options, name.replace("-", "_"))
        flag = "--spill-dir" if name == "spill" else f"--{name}"
        if value not in (None, "exact" if name == "math" else None):
            words += [flag, str(value)]
    return words + [word for name in options.plugin for word in ("--plugin", name)]


def _opened(path: Path) -> TextIO:
    try:
        return path.open("w", encoding="utf-8")
    except OSError as error:
        raise unwritable(path, error) from None


def _write(file: TextIO, path: Path, line: str) -> None:
    try:
        file.write(line + "\n")
        file.flush()
    except OSError as error:
        raise unwritable(path, error) from None

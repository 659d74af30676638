"""The verb `replay`: run a recorded program again from the start, and compare its results."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

from prograd_proto.files import load
from prograd_proto.identity import program_sha256
from prograd_proto.regular_files import open_regular
from runtime.command_line.ending import EXIT_DONE, EXIT_FAILED
from runtime.command_line.results import put_result
from runtime.command_line.values import number
from runtime.commands.execute import perform
from runtime.engines.choice import with_instructions
from runtime.errors import DataError, UsageError
from runtime.runs.machine import this_machine
from runtime.runs.run_record import RunRecord, file_sha256, read_record

_FOR_BITS = ("prograd", "numpy", "simd", "blas", "blas_core", "libc", "system", "instructions")
"""Properties of a machine that may change bits, as docs/reproducibility.md explains."""


def replay(options: argparse.Namespace) -> int:
    """Run a recorded program again; return 0 if its states, and its metrics if asked, are equal, and else 1."""
    record = None if options.recorded is None else read_record(options.recorded)
    if record is not None:
        ask_the_same(options, record)
        other = _other_files(options, record)
        if other:
            options.say(other)
            put_result(options, "FAILED", [("state_sha256", "none")])
            return EXIT_FAILED
    expected = options.expect_sha256 if record is None else record.state_sha256
    with TemporaryDirectory() as folder:
        if options.expect_metrics is not None:
            options.metrics = Path(folder) / f"metrics{options.expect_metrics.suffix}"
        done = perform(options)
        found = str(dict(done.fields)["state_sha256"])
        failures = (
            [] if found == expected else [_other_states(found, expected, record, done.run.session.engine.instructions)]
        )
        if options.expect_metrics is not None:
            failures += _other_metrics(options.metrics, options.expect_metrics)
    for failure in failures:
        options.say(failure)
    put_result(options, "FAILED" if failures else "OK", done.fields)
    return EXIT_FAILED if failures else EXIT_DONE


def ask_the_same(options: argparse.Namespace, record: RunRecord) -> None:
    """Copy the options of the run from the record; raise UsageError for options that it has, or for missing files."""
    for name in ("entry", "steps", "epochs", "seed", "split"):
        if getattr(options, name) is not None:
            raise UsageError(f"--record and --{name} both say what to run; leave --{name} out")
    if options.settings:
        raise UsageError("--record and --set both say what to run; leave --set out")
    if options.engine not in (None, record.engine, f"{record.engine}.{record.machine.get('instructions')}"):
        raise UsageError(
            f"the recorded run was computed by the engine {record.engine!r}, and hashes are compared within one "
            f"engine; leave --engine {options.engine} out"
        )
    options.engine = with_instructions(record.engine, record.machine.get("instructions", ""))
    options.entry, options.seed = record.entry, record.seed
    options.settings = [_setting(options.recorded, name, value) for name, value in record.settings.items()]
    options.steps, options.split = record.steps or None, record.split or None
    for name, digest in (("data", record.data), ("load", record.load)):
        _require_file(f"--{name}", f"--{name} FILE", bool(digest), getattr(options, name) is not None)
    files = _fed_files(options)
    recorded = {name for name, value in record.feeds.items() if value.startswith("@")}
    for name in sorted(files.keys() | recorded):
        _require_file(f"--feed {name}", f"--feed {name}=@FILE", name in recorded, name in files)
    options.feed += [f"{name}={value}" for name, value in record.feeds.items() if name not in recorded]


def _setting(path: Path, name: str, value: str) -> tuple[str, int | float]:
    found = number(value)
    if found is None:
        raise DataError(f"{path}: the record is damaged: its setting {name!r} is {value[:80]!r}, no number")
    return name, found


def _require_file(option: str, form: str, recorded: bool, given: bool) -> None:
    """Raise UsageError unless a file is given exactly where the recorded run had one."""
    if recorded and not given:
        raise UsageError(f"the recorded run was given a file by {option}; give it again: {form}")
    if given and not recorded:
        raise UsageError(f"the recorded run was given no file by {option}; leave it out")


def _fed_files(options: argparse.Namespace) -> dict[str, Path]:
    """Return the files of --feed by name."""
    parts = [text.partition("=@") for text in options.feed]
    return {name: Path(file) for name, at, file in parts if at}


def _other_files(options: argparse.Namespace, record: RunRecord) -> str:
    """Return a sentence if program or files differ from the record, so that no run is needed; else an empty string."""
    given = {f"--feed {name}": (path, record.feeds[name][1:]) for name, path in _fed_files(options).items()}
    given |= {"--data": (options.data, record.data), "--load": (options.load, record.load)}
    found = program_sha256(load(options.program))
    if found != record.program_sha256:
        return f"this is another program: its program_sha256 is {found}, the record's is {record.program_sha256}"
    for option, (path, digest) in given.items():
        if digest and (here := file_sha256(path)) != digest:
            return f"{option} {path} is another file: its SHA-256 is {here[:16]}..., the record's is {digest[:16]}..."
    return ""


def _other_states(found: str, expected: str, record: RunRecord | None, instructions: str) -> str:
    here = this_machine(instructions)
    words = f"the states differ: state_sha256 is {found[:16]}..., expected is {expected[:16]}...; "
    if record is None:
        return words + (
            "the same program, rows, seed and steps give the same bits with one NumPy and BLAS on CPUs of one kind; "
            f"here are numpy {here['numpy']}, {here['blas']}, {here['blas_core']}; "
            "a record, by execute --record, says what was there"
        )
    changed = [name for name in _FOR_BITS if here.get(name, "unknown") != record.machine.get(name, "unknown")]
    if changed:
        return words + f"this may be why: {'; '.join(_change(name, record.machine, here) for name in changed)}"
    if record.resumed:
        return words + "the recorded run went on from a checkpoint, and what that began with is not in the record"
    return words + "versions and CPU are the record's, and so should the bits be: a plugin or the machine is at fault"


def _change(name: str, then: Mapping[str, str], now: Mapping[str, str]) -> str:
    before, after = then.get(name, "unknown"), now.get(name, "unknown")
    if name == "simd":  # a long list: show only the features that one side lacks
        lost, new = (set(a.split()) - set(b.split()) for a, b in ((before, after), (after, before)))
        return f"simd {' '.join(f'-{w}' for w in sorted(lost))} {' '.join(f'+{w}' for w in sorted(new))}".rstrip()
    return f"{name} was {before}, is {after}"


def _other_metrics(found: Path, expected: Path) -> list[str]:
    """Return a sentence about the first line in which two metrics files differ."""
    try:
        with open_regular(expected) as file:
            wanted = file.read()
    except OSError as error:
        raise DataError(f"{expected}: the metrics cannot be read: {error.strerror or error}") from None
    with open_regular(found) as file:
        here = file.read()
    if here == wanted:
        return []
    pairs = zip_longest(here.splitlines(), wanted.splitlines(), fillvalue=b"nothing")
    number, (a, b) = next(
        ((i, pair) for i, pair in enumerate(pairs, 1) if pair[0] != pair[1]), (0, (b"other ends of lines", b""))
    )
    got, line = (text.decode(errors="replace")[:80] for text in (a, b))
    return [f"the metrics differ from {expected}, first in line {number}: {got!r} instead of {line!r}"]

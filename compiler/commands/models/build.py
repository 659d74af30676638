"""The verb `compiler build`: writes a program as a library that needs no Python."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from compiler.build.well_formed import well_formed
from compiler.commands.notes import note
from compiler.errors import UsageError
from prograd_proto.states import trains
from runtime.ahead.browser import write_site
from runtime.ahead.folder import require_empty, write_folder
from runtime.ahead.library import library_of, spelled
from runtime.ahead.machines import machine_of, own_machine, targets_of
from runtime.command_line.results import put_result
from runtime.runs.run import Run, load
from runtime.runs.untrained import warn_of_initial_values


def build(options: argparse.Namespace) -> None:
    """Compile the steps for the machine, and write the folder."""
    path, folder = Path(options.program), Path(options.folder)
    well_formed(options.program)
    require_empty(folder, force=options.force)
    name, cpu = own_machine() if options.target is None else (options.target, "")
    machine = machine_of(name)
    if options.threads > 1 and not machine.has_threads:
        raise UsageError(f"--threads {options.threads}: a library for {name} has one thread")
    run = load(path, engine="reference", threads=1)
    if options.load is not None:
        run.load(options.load)
    run.states.require()
    library = library_of(
        run.program,
        spelled(re.sub(r"(\.pb|\.txt)+$", "", path.name)),
        targets_of(name, machine, options.cpu or cpu, is_compact=options.small),
        run.states.arrays,
        entries=options.entry,
        rows=options.rows,
        threads=options.threads,
        word_bytes=machine.word_bytes,
        has_files=machine.has_files,
        by_shard=options.by_shard,
    )
    if name == "wasm32":
        size = write_site(folder, run.program, library, run.states.arrays).stat().st_size
    else:
        written = write_folder(folder, run.program, library, machine, run.states.arrays)
        size = written.static.stat().st_size
        if written.shared is None and machine.compilers:
            there = " or ".join(machine.compilers)
            note(options, f"note: there is no shared library, as {there} is not installed; {written.static} is static")
    _warn_if_untrained(run, options.entry)
    told = [
        ("target", name),
        ("instructions", library.instructions),
        ("functions", str(len(library.functions))),
        ("library", str(size)),
        ("memory", str(library.memory_bytes)),
        ("program_sha256", library.sha256),
    ]
    put_result(options, "OK", told)


def _warn_if_untrained(run: Run, entries: list[str]) -> None:
    """Warn that weights have their initial values, unless one of the built entries trains them."""
    built = [entry for entry in run.program.entries if not entries or entry.name in entries]
    if not any(trains(run.program, run.program.blocks[entry.source_block]) for entry in built):
        warn_of_initial_values(run.program, run.states, "the library computes with initial values")

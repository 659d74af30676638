"""A program that is loaded as the options ask."""

from __future__ import annotations

import argparse

from runtime.commands.settings import chosen_settings
from runtime.memory.limit import MemoryLimit
from runtime.runs.run import Run, load


def loaded_run(options: argparse.Namespace, *, check_nan: bool = False, memory: MemoryLimit | None = None) -> Run:
    """Load a program as the options of `execute` ask.

    `memory` is the account of earlier allocations; by default it is that of `--max-memory`.
    """
    return load(
        options.program,
        engine=options.engine,
        threads=options.threads,
        seed=options.seed,
        data=options.data,
        settings=chosen_settings(options.settings),
        spill=options.spill,
        check_nan=check_nan,
        group=getattr(options, "group", None),
        max_memory=memory or MemoryLimit(options.max_memory, of_process=True, threads=options.threads),
    )


def run_with_states(options: argparse.Namespace) -> Run:
    """Load a program as `loaded_run` does, and the states of --load, --only, --rename and --layout."""
    run = loaded_run(options)
    if options.load:
        run.load(options.load, only=options.only, rename=dict(options.rename), layout=options.layout)
    return run

"""A program that is loaded as the options ask."""

from __future__ import annotations

import argparse

from runtime.commands.settings import chosen_settings
from runtime.errors import UsageError
from runtime.memory.limit import MemoryLimit
from runtime.runs.run import Run, load


def loaded_run(options: argparse.Namespace, *, check_nan: bool = False, memory: MemoryLimit | None = None) -> Run:
    """Load a program by the options of `add_how` and `add_settings`, with seed and rows where the verb has these.

    `memory` is the account of earlier allocations; by default it is that of `--max-memory`.
    """
    return load(
        options.program,
        engine=options.engine,
        math=options.math,
        threads=options.threads,
        schedule=options.schedule,
        seed=getattr(options, "seed", None),
        data=getattr(options, "data", None),
        settings=chosen_settings(options.settings),
        spill=options.spill,
        check_nan=check_nan,
        group=getattr(options, "group", None),
        max_memory=memory or MemoryLimit(options.max_memory, of_process=True, threads=options.threads),
    )


def run_with_states(options: argparse.Namespace) -> Run:
    """Load a program as `loaded_run` does, and the states of the options of `add_load`.

    Raises UsageError for options that say what --load takes without it.
    """
    require_load(options)
    run = loaded_run(options)
    if options.load:
        run.load(options.load, only=options.only, rename=dict(options.rename), layout=options.layout)
    return run


def require_load(options: argparse.Namespace) -> None:
    """Raise UsageError for options that say what --load takes without it."""
    if (options.only or options.rename or options.layout != "prograd") and not options.load:
        raise UsageError("--only, --rename and --layout say what --load takes; give --load")

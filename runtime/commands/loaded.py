"""A program that is loaded as the options ask."""

from __future__ import annotations

import argparse

from runtime.commands.settings import chosen_settings
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

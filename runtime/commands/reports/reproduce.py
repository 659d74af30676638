"""The option --reproduce: a step that made NaN or Inf is saved as a program of its own before the command ends."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Generator
from contextlib import contextmanager

from runtime.errors import ExecutionError, NonFinite
from runtime.runs.run import Run


@contextmanager
def reproducing(options: argparse.Namespace, run: Run) -> Generator[None]:
    """Save a step that fails in this context into the folder of --reproduce, name the command, and keep the error."""
    try:
        yield
    except NonFinite as error:
        if options.reproduce is not None and error.step is not None:
            from runtime.runs.reproducer import PROGRAM, write_reproducer  # computes hashes, which costs start-up time

            try:
                feeds = write_reproducer(run.program, error.step, options.reproduce, force=options.force)
            except ExecutionError as failure:
                options.say(f"the step is not kept: {failure}")
            else:
                command = [
                    "runtime",
                    "execute",
                    str(options.reproduce / PROGRAM),
                    "--check-nan",
                    *feeds,
                    *_how(options),
                ]
                options.say(f"the step is kept: {shlex.join(command)}")
        raise


def _how(options: argparse.Namespace) -> list[str]:
    """Return the further options that the program needs, as in this run."""
    engine = ["--engine", options.engine] if options.engine else []
    spill = ["--spill-dir", str(options.spill)] if options.spill else []
    return engine + spill + [word for name in options.plugin for word in ("--plugin", name)]

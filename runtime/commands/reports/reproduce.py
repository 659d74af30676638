"""The option --reproduce: a step that made NaN or Inf becomes a program of its own before the command ends."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Generator
from contextlib import contextmanager

from runtime.errors import ExecutionError, NonFinite
from runtime.runs.run import Run


@contextmanager
def reproducing(options: argparse.Namespace, run: Run) -> Generator[None]:
    """Write what fails in here into the folder of --reproduce, and say how to run it; the error stays what it is."""
    try:
        yield
    except NonFinite as error:
        if options.reproduce is not None and error.step is not None:
            from runtime.runs.reproducer import PROGRAM, write_reproducer  # hashes: start-up time

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
    """What else the program needs, as this run did."""
    engine = ["--engine", options.engine] if options.engine else []
    spill = ["--spill-dir", str(options.spill)] if options.spill else []
    return engine + spill + [word for name in options.plugin for word in ("--plugin", name)]

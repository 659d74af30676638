"""The verbs of the command `runtime`; `runtime.command_line` has its parsing, messages and exit codes.

A verb is the function of that name in the file of that name. `arguments` is the table of verbs, and `runtime --help`
prints it: audit, bench, cache, chat, check, completion, execute, plot, profile, replay, serve, sweep. The verbs use:

arguments  the verbs and their options
options    the options that several verbs have
loaded     a program that is loaded as the options ask
settings   the option --set, and its fields of the result line
ranks      the option --mpi: a verb as one of several processes
sandbox    limits that the operating system enforces
arrays/    arrays from the command line, and to it
tables/    tables of predictions
reports/   reports of a run: progress, metrics, traces, records
parts/     ranges of the rows of a prediction, each by a process of its own
sweeps/    the runs of a sweep, and their table
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module

from prograd_proto.printable import use_escapes_on_output
from runtime.command_line.ending import ended
from runtime.commands.arguments import parse
from runtime.runs.interrupts import ENDINGS, Interrupts


def run_command(arguments: Sequence[str], command: str = "runtime") -> int:
    """Parse the arguments, run the verb, and turn every outcome into one sentence and an exit code."""
    use_escapes_on_output()
    return ended(parse(arguments, command), _run)


def _run(options: argparse.Namespace) -> int:
    if options.plugin:
        from runtime.plugins import use_plugins

        use_plugins(options.plugin)
    verb = import_module(f"runtime.commands.{options.verb}")  # the parser accepts only known verbs
    with Interrupts(*ENDINGS, at_once=True) as options.interrupts:
        return getattr(verb, options.verb)(options)

"""The verbs of the command `runtime`; `runtime.command_line` has its parsing, messages and exit codes.

A verb is the function of that name in the file of that name: audit, bench, cache, chat, check, execute, plot, profile,
replay, serve, sweep. They use:

verbs/     the tables of verbs and their options, from which parsers, help and errors follow
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

from prograd_proto.printable import use_escapes_on_output
from runtime.command_line.calling import call_verb, require_consistent
from runtime.command_line.ending import ended
from runtime.command_line.parsing import parsed
from runtime.commands.verbs.command import COMMAND
from runtime.commands.verbs.options import MPI
from runtime.ranks.join import require_alone
from runtime.runs.interrupts import ENDINGS, Interrupts


def run_command(arguments: Sequence[str], command: str = "runtime") -> int:
    """Parse the arguments, run the verb, and turn every outcome into one sentence and an exit code."""
    use_escapes_on_output()
    return ended(parsed(COMMAND._replace(name=command), arguments), _run)


def _run(options: argparse.Namespace) -> int | None:
    require_consistent(options)
    if options.plugin:
        from runtime.plugins import use_plugins

        use_plugins(options.plugin)
    with Interrupts(*ENDINGS, at_once=True) as options.interrupts:
        return _call(options)


def _call(options: argparse.Namespace) -> int | None:
    """Call the verb; one that has --mpi runs as a rank with it, and without it must be the only process."""
    if MPI not in options.verb.options:
        return call_verb(options)
    if not options.mpi:
        require_alone()
        return call_verb(options)
    from runtime.commands.ranks import as_rank  # few runs have several processes

    return as_rank(options)

"""The verbs of the command `runtime`; how they are told, speak and end is in `runtime.command_line`.

A verb is the function of that name in the file of that name; `arguments` is their table, and `runtime --help` prints
it: bench, cache, check, execute, plot, profile, replay, serve, sweep. What they use:

arguments      what can be said on the command line: the verbs, and the options of each
settings       the option --set, and its fields of the result line
metric_fields  what metrics are called in the result line
progress       what is reported meanwhile, on stderr
record         what was run and what it gave, for replay
reproduce      a step that made NaN, kept as a program
feeds, fetches arrays from files and to files
decoding       numbers that an entry fetches, as the values that they stand for
watched        histograms of parameters, for the file of metrics
metrics_file   every step and epoch, as CSV or JSON lines
sandbox        limits that the operating system holds
sweep_runs     the runs of a sweep: every combination, some at once
sweep_table    which run is best, as a table and as JSON
trace          every op, for Chrome's trace viewer
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module

from prograd_proto.printable import use_escapes_on_output
from runtime.command_line.ending import ended
from runtime.commands.arguments import parse
from runtime.runs.interrupts import ENDINGS, Interrupts


def run_command(arguments: Sequence[str]) -> int:
    """Parse, run the verb, and turn whatever happens into one sentence and an exit code."""
    use_escapes_on_output()
    return ended(parse(arguments), _run)


def _run(options: argparse.Namespace) -> int:
    if options.plugin:
        from runtime.plugins import use_plugins

        use_plugins(options.plugin)
    verb = import_module(f"runtime.commands.{options.verb}")  # one of the parser's own words
    with Interrupts(*ENDINGS, at_once=True) as options.interrupts:
        return getattr(verb, options.verb)(options)

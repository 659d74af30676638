"""The verbs of the command `compiler`; how they are told, speak and end is in `runtime.command_line`.

A verb is the function of that name in the file of that name, but for thaw, which is in freeze, and the two of data;
`arguments` is their table, and `compiler --help` prints it: check, compile, completion, data pack, data show, diff,
draw, freeze, ops, passes, place, plan, show, summary, upgrade.
What they use:

arguments       what can be said on the command line: the verbs, and the options of each
data_arguments  what can be said to `compiler data`
show_memory, show_order, show_engine    views of how an entry runs
pictures        of memory and of ops, as SVG and pages
asked_passes    what is asked of passes
engine_arenas   the bytes of an arena that each engine takes for an entry
chosen_entry    the entry that a view is of, and the sizes that it is bound to
notes           what a user should know besides the result
ops_in_words    ops, lines and sizes as words
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module

from compiler.commands.arguments import parse
from compiler.errors import DataError, LimitError, UsageError
from prograd_proto.printable import use_escapes_on_output
from runtime.command_line.ending import EXIT_DATA, EXIT_LIMIT, EXIT_USAGE, ended
from runtime.command_line.outputs import require_free
from runtime.files.output import require_form
from runtime.runs.interrupts import ENDINGS, Interrupts

CODES = ((UsageError, EXIT_USAGE), (DataError, EXIT_DATA), (LimitError, EXIT_LIMIT))
OUTPUTS = ("output", "html", "svg")
"""The options that name files to write."""
_PROGRAMS = dict.fromkeys(["compile", "freeze", "plan", "upgrade"], (".pb", "programs"))
WRITTEN = _PROGRAMS | {"place": (".csv", "placements")}
"""By verb, what -o writes: the suffix of the format, and what is in the file."""


def run_command(arguments: Sequence[str]) -> int:
    """Parse, run the verb, and turn whatever happens into one sentence and an exit code."""
    use_escapes_on_output()
    return ended(parse(arguments), _run, CODES)


def _run(options: argparse.Namespace) -> int | None:
    with Interrupts(*ENDINGS, at_once=True):
        if options.plugin:
            from compiler.build.plugins import use_plugin

            for name in options.plugin:
                use_plugin(name)
        require_free((getattr(options, name, None) for name in OUTPUTS), force=getattr(options, "force", False))
        if getattr(options, "output", None) and options.verb in WRITTEN:
            require_form(options.output, *WRITTEN[options.verb])
        verb = import_module(f"compiler.commands.{options.module}")  # one of the parser's own words
        return getattr(verb, options.verb)(options)

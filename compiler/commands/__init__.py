"""The verbs of the command `compiler`; `runtime.command_line` has their parsing, output and exit codes.

A verb is the function of that name in the file of that name, unless its table names another function: check, compile,
diff, draw, freeze, ops, passes, plan, show, summary, and those in these modules:

imports         the verbs `import lm` and `import onnx`
models          the verbs `export`, `compare`, `gradcheck`, `merge`, `quantize` and `build`
import_torch    the verb `import torch`
data            the verbs `data pack` and `data show`

They use:

verbs           the tables of verbs and their options, from which parsers, help and errors follow
views           of how an entry runs, as text
pictures        of memory and of ops, as SVG and pages
asked_passes    the options about passes
engine_arenas   the arena bytes of each engine for an entry
chosen_entry    the entry and the binding of a view
notes           notes to the user on stderr
ops_in_words    ops, lines and sizes as words
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from compiler.commands.verbs.command import COMMAND, with_verbs_of_two_words
from compiler.commands.verbs.options import OUTPUT, REQUIRED_OUTPUT
from compiler.errors import DataError, LimitError, UsageError
from prograd_proto.printable import use_escapes_on_output
from runtime.command_line.calling import call_verb, require_consistent
from runtime.command_line.ending import EXIT_DATA, EXIT_LIMIT, EXIT_USAGE, ended
from runtime.command_line.outputs import require_free
from runtime.command_line.parsing import parsed
from runtime.files.output import require_form
from runtime.runs.interrupts import ENDINGS, Interrupts

CODES = ((UsageError, EXIT_USAGE), (DataError, EXIT_DATA), (LimitError, EXIT_LIMIT))
OUTPUTS = ("output", "html", "svg")
"""Options that name files to write."""


def run_command(arguments: Sequence[str], command: str = "compiler") -> int:
    """Parse, run the verb, and turn any error into one sentence and an exit code."""
    use_escapes_on_output()
    return ended(parsed(COMMAND._replace(name=command), with_verbs_of_two_words(arguments)), _run, CODES)


def _run(options: argparse.Namespace) -> int | None:
    require_consistent(options)
    with Interrupts(*ENDINGS, at_once=True):
        if options.plugin:
            from compiler.build.plugins import use_plugin

            for name in options.plugin:
                use_plugin(name)
        require_free((getattr(options, name, None) for name in OUTPUTS), force=getattr(options, "force", False))
        writes_program = any(option in (OUTPUT, REQUIRED_OUTPUT) for option in options.verb.options)
        if writes_program and options.output is not None:
            require_form(options.output, ".pb", "programs")
        return call_verb(options)

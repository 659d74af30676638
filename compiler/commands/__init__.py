"""The verbs of the command `compiler`; `runtime.command_line` has their parsing, output and exit codes.

A verb is the function of that name in the file of that name, but for thaw, which is in freeze, and those of two words;
`arguments` is their table, and `compiler --help` prints it: build, check, compare, compile, completion, data pack,
data show, diff, draw, export, freeze, gradcheck, import lm, import onnx, import torch, merge, ops, passes, plan, show,
summary.
Modules that they use:

imports         the verbs `import lm` and `import onnx`
models          the verbs `export`, `compare`, `gradcheck`, `merge`, `quantize` and `build`
import_torch    the verb `import torch`
arguments       the command line: the verbs, and the options of each
data_arguments  the options of `compiler data`
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
"""Options that name files to write."""
WRITTEN = dict.fromkeys(["compile", "freeze", "import_lm", "import_onnx", "import_torch", "plan"], (".pb", "programs"))
"""The output of -o by verb: the suffix of the format, and the content of the file."""


def run_command(arguments: Sequence[str], command: str = "compiler") -> int:
    """Parse, run the verb, and turn any error into one sentence and an exit code."""
    use_escapes_on_output()
    return ended(parse(arguments, command), _run, CODES)


def _run(options: argparse.Namespace) -> int | None:
    with Interrupts(*ENDINGS, at_once=True):
        if options.plugin:
            from compiler.build.plugins import use_plugin

            for name in options.plugin:
                use_plugin(name)
        require_free((getattr(options, name, None) for name in OUTPUTS), force=getattr(options, "force", False))
        if getattr(options, "output", None) and options.verb in WRITTEN:
            require_form(options.output, *WRITTEN[options.verb])
        verb = import_module(f"compiler.commands.{options.module}")  # a word of the parser itself
        return getattr(verb, options.verb)(options)

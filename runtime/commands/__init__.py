"""The verbs of the command `runtime`, and how every one of them ends.

arguments      what can be said on the command line
execute        the main job
replay         the same again, compared
check          is the program well formed and safe to run
profile        where the time goes
outcome        exit codes and the result line
progress       what is reported meanwhile, on stderr
record         what was run and what it gave, for replay
reproduce      a step that made NaN, kept as a program
streams        stdout and stderr, whatever happens to them
feeds, fetches arrays from files and to files
metrics_file   every step and epoch, as CSV or JSON lines
sandbox        limits that the operating system holds
trace          every op, for Chrome's trace viewer
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from prograd_proto.printable import use_escapes_on_output
from runtime.commands.arguments import parse
from runtime.commands.outcome import EXIT_INTERRUPTED, exit_code, sentence
from runtime.commands.streams import drop
from runtime.runs.interrupts import ENDINGS, Interrupts


def run_command(arguments: Sequence[str]) -> int:
    """Parse, run the verb, and turn whatever happens into one sentence and an exit code."""
    use_escapes_on_output()
    options = parse(arguments)
    try:
        if options.plugin:
            from runtime.plugins import use_plugins

            use_plugins(options.plugin)
        verb = import_module(f"runtime.commands.{options.verb}")  # one of the parser's own words
        with Interrupts(*ENDINGS, at_once=True) as options.interrupts:
            return getattr(verb, options.verb)(options)
    except BrokenPipeError:  # the reader of our results has left; not an error of ours, but not a success either
        drop(sys.stdout)
        return EXIT_INTERRUPTED
    except BaseException as error:
        if options.traceback or isinstance(error, SystemExit | GeneratorExit):
            raise
        options.say(sentence(error))
        return exit_code(error)

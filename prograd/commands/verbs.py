"""The verbs of the command `prograd`: those of `runtime` and of `compiler`.

A verb of one command is that command's. Of the two that both have, `check` does the checks of both, and `completion`
completes all verbs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from prograd_proto.printable import use_escapes_on_output
from runtime.command_line.calling import call_verb
from runtime.command_line.ending import ended
from runtime.command_line.parsing import parsed
from runtime.command_line.tables import Command
from runtime.commands.verbs.command import COMMAND as RUNTIME

COMMAND: Final = "prograd"
SHARED: Final = ("check", "completion")
"""Verbs that both commands have."""


def run_command(arguments: Sequence[str]) -> int:
    """Run a verb of either command, and return the exit code."""
    verb = next((word for word in arguments if not word.startswith("-")), "")
    if verb in RUNTIME.verbs and verb not in SHARED:
        return _runtime(arguments)
    from compiler.commands.verbs.command import with_verbs_of_two_words  # `runtime` alone need not have it

    options = parsed(all_verbs(), with_verbs_of_two_words(arguments))
    if options.verb.name == "check":
        return _compiler(arguments) or _runtime(arguments)
    if options.verb.name == "completion":
        use_escapes_on_output()
        return ended(options, call_verb)
    return _compiler(arguments)


def all_verbs() -> Command:
    """Return the command with the verbs of both, those of `runtime` first."""
    from compiler.commands.verbs.command import COMMAND as COMPILER

    own = {name: verb for name, verb in COMPILER.verbs.items() if name not in SHARED}
    return Command(COMMAND, "", "Build, check, run and inspect program files.", RUNTIME.verbs | own)


def _runtime(arguments: Sequence[str]) -> int:
    from runtime.commands import run_command as run

    return run(arguments, COMMAND)


def _compiler(arguments: Sequence[str]) -> int:
    from compiler.commands import run_command as run

    return run(arguments, COMMAND)

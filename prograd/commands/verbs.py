"""The verbs of the command `prograd`: those of `runtime` and of `compiler`.

A verb of one command is that command's. Of the two that both have, `check` does the checks of both, and `completion`
completes all verbs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final

from prograd_proto.printable import use_escapes_on_output
from runtime.command_line.ending import ended
from runtime.command_line.parsing import new_parser, parsed
from runtime.command_line.streams import put
from runtime.commands.arguments import add_verbs as add_runtime_verbs

COMMAND: Final = "prograd"
SHARED: Final = ("check", "completion")
"""Verbs that both commands have."""


def run_command(arguments: Sequence[str]) -> int:
    """Run a verb of either command, and return the exit code."""
    verb = next((word for word in arguments if not word.startswith("-")), None)
    _, verbs = new_parser(COMMAND, "")
    add_runtime_verbs(verbs)
    if verb in verbs.choices and verb not in SHARED:
        return _runtime(arguments)
    from compiler.commands.data_arguments import with_verbs_of_two_words  # `runtime` alone need not have it

    options = parsed(command_parser(), with_verbs_of_two_words(arguments))
    if options.verb == "check":
        return _compiler(arguments) or _runtime(arguments)
    if options.verb == "completion":
        use_escapes_on_output()
        return ended(options, _completion)
    return _compiler(arguments)


def command_parser() -> tuple[argparse.ArgumentParser, Any]:
    """Return the parser of all verbs, and the object with the verbs by name in `choices`."""
    from compiler.commands.arguments import add_verbs as add_compiler_verbs

    parser, verbs = new_parser(COMMAND, "Build, check, run and inspect program files.")
    add_runtime_verbs(verbs)
    add_compiler_verbs(verbs, shared=False)
    return parser, verbs


def _runtime(arguments: Sequence[str]) -> int:
    from runtime.commands import run_command as run

    return run(arguments, COMMAND)


def _compiler(arguments: Sequence[str]) -> int:
    from compiler.commands import run_command as run

    return run(arguments, COMMAND)


def _completion(options: argparse.Namespace) -> None:
    """Print the shell script that completes this command."""
    from runtime.command_line.completion import completion_script

    put(completion_script(options.shell, COMMAND, command_parser()).rstrip("\n"))

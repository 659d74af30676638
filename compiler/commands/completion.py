"""The verb `completion`."""

from __future__ import annotations

import argparse

from compiler.commands.arguments import command_parser
from runtime.command_line.completion import completion_script
from runtime.command_line.streams import put


def completion(options: argparse.Namespace) -> None:
    """Print the shell script that completes this command."""
    put(completion_script(options.shell, "compiler", command_parser()).rstrip("\n"))

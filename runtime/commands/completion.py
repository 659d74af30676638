"""The verb `completion`."""

from __future__ import annotations

import argparse

from runtime.command_line.completion import completion_script
from runtime.command_line.streams import put
from runtime.commands.arguments import command_parser


def completion(options: argparse.Namespace) -> int:
    """Print the script that a shell needs to complete this command."""
    put(completion_script(options.shell, "runtime", command_parser()).rstrip("\n"))
    return 0

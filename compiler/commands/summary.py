"""The verb `compiler summary`: a program on one screen."""

from __future__ import annotations

import argparse

from compiler.analyses.summary import summary as summary_of
from compiler.build.well_formed import well_formed
from compiler.commands.engine_arenas import engine_arenas
from runtime.command_line.streams import put


def summary(options: argparse.Namespace) -> None:
    """Print the tables of layers and entries, with the arenas of the engines of this machine."""
    program = well_formed(options.program)
    put(summary_of(program, engine_arenas(program, options.threads)))

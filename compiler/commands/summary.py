"""`compiler summary`: what a program is, on one screen."""

from __future__ import annotations

import argparse

from compiler.analyses.summary import summary as summary_of
from compiler.build.well_formed import well_formed
from runtime.command_line.streams import put


def summary(options: argparse.Namespace) -> None:
    """Print the tables of layers and entries."""
    put(summary_of(well_formed(options.program)))

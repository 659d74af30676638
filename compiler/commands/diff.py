"""The verb `compiler diff`: the changes from one program to another, in words."""

from __future__ import annotations

import argparse

from compiler.build.well_formed import well_formed
from compiler.compare.differences import differences
from prograd_proto.printable import sentence
from runtime.command_line.ending import EXIT_DONE, EXIT_FAILED
from runtime.command_line.streams import put


def diff(options: argparse.Namespace) -> int:
    """Print the differences, one change a line, and return the exit code."""
    groups = differences(well_formed(options.old), well_formed(options.new))
    for title, lines in groups:
        put("\n".join([sentence(title), *(sentence(f"  {line}") for line in lines)]))
    if not groups:
        put("OK the programs are equal")
    return EXIT_FAILED if groups else EXIT_DONE

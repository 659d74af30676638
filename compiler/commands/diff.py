"""`compiler diff`: what changed from one program to another, in words."""

from __future__ import annotations

import argparse

from compiler.commands.well_formed import well_formed
from compiler.compare.differences import differences
from prograd_proto.printable import sentence

DIFFERENT = 1


def show_differences(options: argparse.Namespace) -> int:
    """Print what differs, one change a line, and give the exit code."""
    groups = differences(well_formed(options.old), well_formed(options.new))
    for title, lines in groups:
        print(sentence(title))
        for line in lines:
            print(sentence(f"  {line}"))
    if not groups:
        print("OK the programs are equal")
    return DIFFERENT if groups else 0

"""Notes to the user besides the result: a line on stderr, unless --quiet is given."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from prograd_proto import program_pb2 as pb
from prograd_proto.printable import sentence
from runtime.command_line.streams import say


def note(options: argparse.Namespace, text: str) -> None:
    """Print a note, printable and of bounded length."""
    if not options.quiet:
        say(sentence(text))


def note_weights(options: argparse.Namespace, arrays: Iterable[str]) -> None:
    """Print the files with the arrays of a program that was written."""
    for name in arrays:
        note(options, f"note: the weights are in {name}, which must lie beside {options.output}")


def note_files(options: argparse.Namespace, output: str, files: Iterable[pb.FileDesc]) -> None:
    """Print the files that a program reads and that are not beside its output."""
    for file in files:
        if not (Path(output).parent / file.path).exists():
            note(options, f"note: {output} reads {file.path}, which must lie beside it")

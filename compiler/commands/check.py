"""The verb `compiler check`: every rule of a well-formed program."""

from __future__ import annotations

import argparse

from compiler.build.asked_names import require_names
from compiler.build.well_formed import well_formed
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.identity import program_sha256
from runtime.command_line.results import put_result


def check(options: argparse.Namespace) -> None:
    """Load the program, verify it, and print a line about it."""
    program = well_formed(options.program)
    try:
        require_names(program)
        _require_encoding(program)
    except ProgramError as error:
        raise ProgramError(f"{options.program}: {error}") from None
    ops = sum(len(block.ops) for block in program.blocks)
    names = ",".join(entry.name for entry in program.entries)
    fields = [("ops", ops), ("states", len(program.states)), ("entries", names)]
    put_result(options, "OK", [*fields, ("program_sha256", program_sha256(program))])


def _require_encoding(program: pb.ProgramDesc) -> None:
    """Raise ProgramError for a damaged encoding of columns."""
    if program.data.encoding:
        from runtime.rows.encoding.encoding import Encoding  # brings NumPy

        Encoding.of_program(program)

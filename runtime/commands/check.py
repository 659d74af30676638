"""The verb `check`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from prograd_proto import ProgramError, type_of
from prograd_proto.files import load
from prograd_proto.identity import program_sha256
from prograd_proto.states import held
from runtime.check import bound_blocks, check_program
from runtime.command_line.ending import EXIT_DONE
from runtime.command_line.results import put_result
from runtime.files.program_files import verified_file
from runtime.rows.encoding.encoding import Encoding
from runtime.target import TARGET


def check(options: argparse.Namespace) -> int:
    """Check every index, name, type, size, path, operator and plan of a program, and the files beside it."""
    program = load(options.program)
    try:
        check_program(program, TARGET)
        Encoding.of_program(program)
    except ProgramError as error:
        raise ProgramError(f"{os.fspath(options.program)}: {error}") from None
    for file in program.files:
        verified_file(program, Path(options.program).parent, file.path)
    fields = (
        ("name", program.name),
        ("format", program.format_version),
        ("entries", ",".join(entry.name for entry in program.entries)),
        ("ops", sum(len(program.blocks[n].ops) for n in bound_blocks(program))),
        ("states", len(program.states)),
        ("state", sum(type_of(state).nbytes for state in held(program))),
        ("program_sha256", program_sha256(program)),
    )
    put_result(options, "OK", fields)
    return EXIT_DONE

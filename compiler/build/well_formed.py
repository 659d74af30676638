"""Loading of verified programs: verbs and builders read only programs that were verified here."""

from __future__ import annotations

from pathlib import Path

from compiler.build.plugins import require_used
from compiler.passes.verify import verify
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses
from prograd_proto.files import load, read
from prograd_proto.text import from_text


def well_formed(path: str) -> pb.ProgramDesc:
    """Return the verified program of a file, or of its text form in a file that ends in `.txt`.

    Raises ProgramError, beginning with the path.
    """
    program = _from_text(path) if Path(path).suffix == ".txt" else load(path)
    try:
        require_used(program)
        verify(BlockAnalyses(program))
    except ProgramError as error:
        raise ProgramError(f"{path}: {error}") from None
    return program


def _from_text(path: str) -> pb.ProgramDesc:
    try:
        return from_text(read(path).decode().replace("\r\n", "\n"))
    except UnicodeDecodeError as error:
        raise ProgramError(f"{path}: cannot be read as text: {error}") from None
    except ProgramError as error:
        raise ProgramError(f"{path}: {error}") from None

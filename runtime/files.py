"""The files beside a program: found inside its folder, of the size and hash that the program names."""

from __future__ import annotations

import os
from io import BufferedReader
from pathlib import Path

from prograd_proto import program_pb2 as pb
from prograd_proto.regular_files import open_regular
from runtime.errors import DataError


def verified_file(program: pb.ProgramDesc, folder: Path, path: str) -> Path:
    """Where one of the program's files is, after a look at its size and hash.

    Raises DataError if it is missing, leads out of the folder through a link, or is another file than the one
    that the program was compiled with.
    """
    file = folder / path
    real = Path(os.path.realpath(file))
    if not real.is_relative_to(os.path.realpath(folder)):
        raise DataError(f"{file}: the file leads out of the program's folder, to {real}")
    wanted = next(desc for desc in program.files if desc.path == path)
    try:
        with open_regular(file) as stream:
            size = os.fstat(stream.fileno()).st_size
            found = _sha256(stream) if size == wanted.bytes else b""
    except OSError as error:
        raise DataError(f"{file}: the program's file cannot be read: {error.strerror}") from None
    if size != wanted.bytes:
        raise DataError(
            f"{file}: the file has {size} bytes, the program was compiled with one of {wanted.bytes}; "
            "bring that file back, or compile again"
        )
    if found != wanted.sha256:
        raise DataError(
            f"{file}: the file's SHA-256 is {found.hex()[:16]}..., the program was compiled with one of "
            f"{wanted.sha256.hex()[:16]}...; bring that file back, or compile again"
        )
    return file


def _sha256(stream: BufferedReader) -> bytes:
    import hashlib  # slow to load, and many programs have no files

    return hashlib.file_digest(stream, "sha256").digest()

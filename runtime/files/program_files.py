"""The files beside a program: found inside its folder, with the size and hash that the program names."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from prograd_proto import program_pb2 as pb
from prograd_proto.regular_files import open_regular
from runtime.errors import DataError
from runtime.files.file_reader import FileReader
from runtime.memory.limit import NO_LIMIT, MemoryLimit


def verified_file(program: pb.ProgramDesc, folder: Path, path: str) -> Path:
    """Return the path of one of the program's files after a check of its size and hash; for errors see `verified`."""
    with verified(program, folder, path):
        return folder / path


@contextmanager
def verified(program: pb.ProgramDesc, folder: Path, path: str, memory: MemoryLimit = NO_LIMIT) -> Generator[FileReader]:
    """Yield a reader of one of the program's files, whose content is verified when the context ends without an error.

    Raises DataError if the file is missing, leads out of the folder through a link, or differs from the file that the
    program was compiled with. A difference replaces the errors that a reader finds in the content.
    """
    from hashlib import sha256  # slow to load, and many programs have no files

    file = folder / path
    real = Path(os.path.realpath(file))
    if not real.is_relative_to(os.path.realpath(folder)):
        raise DataError(f"{file}: the file leads out of the program's folder, to {real}")
    wanted = next(desc for desc in program.files if desc.path == path)
    try:
        with open_regular(file) as stream:
            size = os.fstat(stream.fileno()).st_size
            if size != wanted.bytes:
                raise DataError(
                    f"{file}: the file has {size} bytes, the program was compiled with one of {wanted.bytes}; "
                    "bring that file back, or compile again"
                )
            reader = FileReader(stream, sha256(), memory)
            try:
                yield reader
            except DataError:
                _require_hash(file, reader, wanted.sha256)
                raise
            _require_hash(file, reader, wanted.sha256)
    except OSError as error:
        raise DataError(f"{file}: the program's file cannot be read: {error.strerror}") from None


def _require_hash(file: Path, reader: FileReader, wanted: bytes) -> None:
    found = reader.sha256()
    if found != wanted:
        raise DataError(
            f"{file}: the file's SHA-256 is {found.hex()[:16]}..., the program was compiled with one of "
            f"{wanted.hex()[:16]}...; bring that file back, or compile again"
        ) from None

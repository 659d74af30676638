"""The files that a run reads, as hashes of the whole and of pieces, so that a difference can be located.

A file has at most `MAX_PIECES` pieces of equal size. In a safetensors file, the bytes of a piece are rows of tensors,
which the sentence about a difference names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from prograd_proto.regular_files import open_regular
from runtime.errors import DataError
from runtime.files.safetensors_file import read_header
from runtime.files.tensor_files import unverified

MAX_PIECES: Final = 1024
MIN_PIECE_BYTES: Final = 1 << 12
DIGITS: Final = 16
"""Hexadecimal digits of the hash of a piece."""


class InputFile(NamedTuple):
    """A file that a run read.

    Attributes:
        name: its name, without a folder.
        role: what it was to the run: "program", "--data", "--load", "--feed NAME", or a path beside the program.
        bytes: its size.
        sha256: hash of the whole file.
        piece_bytes: size of a piece; the last one may be smaller.
        pieces: the first digits of the SHA-256 of each piece, one after the other.
    """

    name: str
    role: str
    bytes: int
    sha256: str
    piece_bytes: int
    pieces: str


def input_file(path: Path, role: str) -> InputFile:
    """Return the hashes of a file; raise DataError if it cannot be read."""
    try:
        with open_regular(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            piece_bytes = max(MIN_PIECE_BYTES, -(-size // MAX_PIECES))
            whole, pieces = sha256(), list[str]()
            while piece := stream.read(piece_bytes):
                whole.update(piece)
                pieces.append(sha256(piece).hexdigest()[:DIGITS])
    except OSError as error:
        raise DataError(f"{path}: the file cannot be read: {error.strerror or error}") from None
    return InputFile(path.name, role, size, whole.hexdigest(), piece_bytes, "".join(pieces))


def difference(path: Path, then: InputFile) -> str:
    """Return a sentence about the first place where a file differs from what a run read; "" if it is the same."""
    here = input_file(path, then.role)
    if here.sha256 == then.sha256:
        return ""
    if here.bytes != then.bytes:
        return f"{path}: the file has {here.bytes} bytes, and the run read one of {then.bytes}"
    found = [i for i in range(len(then.pieces) // DIGITS) if _piece(here, i) != _piece(then, i)]
    if not found:
        return f"{path}: the file is another one than the run read"
    begin = found[0] * then.piece_bytes
    end = min(begin + then.piece_bytes, then.bytes)
    more = f", and in {len(found) - 1} later places" if len(found) > 1 else ""
    return (
        f"{path}: the file differs from what the run read in bytes {begin} to {end - 1}{_rows(path, begin, end)}{more}"
    )


def _piece(file: InputFile, number: int) -> str:
    return file.pieces[DIGITS * number : DIGITS * (number + 1)]


def _rows(path: Path, begin: int, end: int) -> str:
    """Return the rows of tensors that lie in these bytes, in words; "" for a file of another kind."""
    if path.suffix != ".safetensors":
        return ""
    named = list(_named(path, begin, end))
    return f", which are {' and '.join(named)}" if named else ", its description of the tensors"


def _named(path: Path, begin: int, end: int) -> Iterator[str]:
    try:
        with unverified(path) as reader:
            header = read_header(reader)
    except (OSError, ValueError, DataError):
        return
    for name, extent in header.extents.items():
        first, last = header.nbytes + extent.start, header.nbytes + extent.end
        low, high, rows = max(begin, first), min(end, last), extent.shape[0] if extent.shape else 0
        if low < high and rows:
            row_bytes = (last - first) // rows
            yield f"rows {(low - first) // row_bytes} to {(high - 1 - first) // row_bytes} of {name!r}"
        elif low < high:
            yield repr(name)


def input_from_json(value: object) -> InputFile:
    """Return a file from JSON values; raise ValueError unless every field is of its type."""
    kinds = {"name": str, "role": str, "bytes": int, "sha256": str, "piece_bytes": int, "pieces": str}
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if fields.keys() != kinds.keys() or any(type(fields[name]) is not kind for name, kind in kinds.items()):
        raise ValueError("its inputs are no files with their hashes")
    file = InputFile(**fields)
    if file.piece_bytes < 1 or len(file.pieces) != DIGITS * -(-file.bytes // file.piece_bytes):
        raise ValueError(f"its input {file.name!r} has not the pieces of its size")
    return file

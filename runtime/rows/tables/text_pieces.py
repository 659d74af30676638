"""Pieces of a text: the column `text`, a row for each line that is not empty."""

from __future__ import annotations

from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from runtime.errors import DataError
from runtime.rows.tables.csv_pieces import MAX_LINE_CHARACTERS, no_utf8
from runtime.rows.tables.piece import PIECE_CHARACTERS, PIECE_ROWS, Piece

TEXT: Final = "text"
"""Name of the column."""


def text_pieces(path: Path, stream: BinaryIO) -> Iterator[Piece]:
    """Yield the pieces of a text; LF, CR or both end a line, and nothing else does.

    Raises DataError for a file that is not text in UTF-8, or has a line that is too long.
    """
    text = TextIOWrapper(stream, encoding="utf-8-sig", newline=None)
    try:
        yield from _pieces(path, text)
    except UnicodeDecodeError as error:
        raise no_utf8(path, error) from None
    finally:
        text.detach()


def _pieces(path: Path, text: TextIOWrapper) -> Iterator[Piece]:
    lines: list[str] = []
    numbers: list[int] = []
    number = characters = 0
    while line := text.readline(MAX_LINE_CHARACTERS + 1):
        number += 1
        if len(line) > MAX_LINE_CHARACTERS:
            raise DataError(f"{path}: line {number} has more than {MAX_LINE_CHARACTERS} characters; make lines of it")
        if line.strip():
            lines.append(line.removesuffix("\n"))
            numbers.append(number)
            characters += len(line)
        if characters >= PIECE_CHARACTERS or len(lines) >= PIECE_ROWS:
            yield _piece(lines, numbers)
            lines, numbers, characters = [], [], 0
    if lines:
        yield _piece(lines, numbers)


def _piece(lines: list[str], numbers: list[int]) -> Piece:
    column = np.empty(len(lines), object)
    column[:] = lines
    return Piece({TEXT: column}, np.array(numbers, np.int64), in_lines=True)

"""Pieces of a CSV file, which is never in memory as a whole.

1. The file is read in blocks that end where a line does.
2. If only numbers are asked for, NumPy parses the lines of a block at once.
3. A block that has anything else, such as a missing value, is parsed record by record. From the first quote on, all
   blocks are: a quoted value may have line ends, so that a block may end inside a record.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator
from io import StringIO, TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.rows.encoding.csv_rows import header_names, separator_of, unequal
from runtime.rows.table_names import suffix_of
from runtime.rows.tables.piece import PIECE_CHARACTERS, Piece

MAX_LINE_CHARACTERS: Final = 1 << 26
"""Largest number of characters of a line."""

_QUOTE: Final = '"'


def csv_pieces(path: Path, stream: BinaryIO, wanted: Collection[str] | None, *, numbers: bool) -> Iterator[Piece]:
    """Yield the pieces of a CSV file.

    Args:
        path: path of the file, for errors and its suffix.
        stream: its content.
        wanted: names of columns that are read where the file has them, or None for all.
        numbers: True if all of them are taken as float64.

    Raises DataError for a file that is no table.
    """
    text = TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    try:
        yield from _pieces(path, text, wanted, numbers=numbers)
    except UnicodeDecodeError as error:
        how = f"iconv -f latin1 -t utf-8 {path.name}"
        what = f"the file is not text in UTF-8: it has the byte {error.object[error.start]:#x}, as in Latin-1"
        raise DataError(f"{path}: {what}; {how} makes it so") from None
    finally:
        text.detach()


def _pieces(path: Path, text: TextIOWrapper, wanted: Collection[str] | None, *, numbers: bool) -> Iterator[Piece]:
    blocks = _blocks(path, text)
    first, line = next(blocks, ""), 1
    while first and not first.strip():
        line += _lines(first)
        first = next(blocks, "")
    skipped = len(first) - len(first.lstrip("\r\n"))
    line, first = line + _lines(first[:skipped]), first[skipped:]
    head, _, _ = first.lstrip().partition("\n")
    separator = "\t" if suffix_of(path) == ".tsv" else separator_of(head.partition("\r")[0])
    names, used, rest = _header(path, first, blocks, separator, line)
    line += used
    places = {name: place for place, name in enumerate(names) if wanted is None or name in wanted}
    for block in rest:
        if _QUOTE in block or "\0" in block:
            yield from _records(path, chain([block], rest), separator, len(names), places, line)
            return
        piece = _at_once(block, separator, len(names), places, line) if numbers and places else None
        if piece is None:
            yield from _records(path, iter([block]), separator, len(names), places, line)
        elif len(piece):
            yield piece
        line += _lines(block)


def _header(
    path: Path, first: str, blocks: Iterator[str], separator: str, line: int
) -> tuple[list[str], int, Iterator[str]]:
    """Return the names of the columns, the number of lines that they take, and the blocks after them."""
    read = [first]
    while True:
        lines = list(islice(StringIO("".join(read), newline=""), 64))
        reader = csv.reader(lines, delimiter=separator, strict=True)
        try:
            record = next(reader, None)
        except csv.Error as error:
            more = next(blocks, "")
            if not more or len(read) > 1:
                raise DataError(f"{path}: this is no table: line {line}: {error}") from None
            read.append(more)
            continue
        break
    if record is None:
        raise DataError(f"{path}: the file has no line that names columns")
    used = reader.line_num
    return header_names(path, record), used, chain(["".join(read)[sum(map(len, lines[:used])) :]], blocks)


def _blocks(path: Path, text: TextIOWrapper) -> Iterator[str]:
    """Yield blocks of whole lines."""
    kept = ""
    while piece := text.read(PIECE_CHARACTERS):
        end = 1 + max(piece.rfind("\n"), piece.rfind("\r", 0, len(piece) - 1))  # LF may follow a CR at the end
        if end:
            yield kept + piece[:end]
            kept = piece[end:]
            continue
        kept += piece
        if len(kept) > MAX_LINE_CHARACTERS:
            raise DataError(f"{path}: a line has more than {MAX_LINE_CHARACTERS} characters; this is no table of rows")
    if kept:
        yield kept


def _lines(block: str) -> int:
    """Return the number of line ends of a block."""
    return block.count("\n") + block.count("\r") - block.count("\r\n")


def _at_once(block: str, separator: str, width: int, places: dict[str, int], line: int) -> Piece | None:
    """Return a block of numbers alone; None if it has anything else, or a record of another length."""
    if "\r" in block:
        block = block.replace("\r\n", "\n")
        if "\r" in block:
            return None
    lines = block.removesuffix("\n").split("\n")
    if any(text.count(separator) != width - 1 for text in lines) or _is_odd(block):
        return None
    try:
        read = np.loadtxt(lines, np.float64, comments=None, delimiter=separator, usecols=[*places.values()], ndmin=2)
    except ValueError:
        return None
    if len(read) != len(lines):
        return None
    columns = {name: np.ascontiguousarray(read[:, at]) for at, name in enumerate(places)}
    return Piece(columns, np.arange(line, line + len(lines)), in_lines=True)


def _is_odd(block: str) -> bool:
    """Return True if a block may have numbers that only one of the two parsers takes."""
    return "_" in block or not block.isascii()


def _records(
    path: Path, blocks: Iterator[str], separator: str, width: int, places: dict[str, int], line: int
) -> Iterator[Piece]:
    """Yield blocks that are parsed record by record, from a line on."""
    reader = csv.reader(
        chain.from_iterable(StringIO(block, newline="") for block in blocks), delimiter=separator, strict=True
    )
    most = max(1, (PIECE_CHARACTERS >> 3) // max(1, width))
    rows: list[list[str]] = []
    begins: list[int] = []
    begin = line
    try:
        for record in reader:
            if record:
                if len(record) != width:
                    raise unequal(path, begin, len(record), width)
                rows.append(record)
                begins.append(begin)
                if len(rows) >= most:
                    yield _piece(rows, begins, places)
                    rows, begins = [], []
            begin = line + reader.line_num
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise DataError(f"{path}: this is no table: a quote in line {begin} is not closed") from None
        raise DataError(f"{path}: this is no table: line {line + reader.line_num - 1}: {error}") from None
    if rows:
        yield _piece(rows, begins, places)


def _piece(rows: list[list[str]], begins: list[int], places: dict[str, int]) -> Piece:
    values = list(zip(*rows, strict=True))
    return Piece({name: _texts(values[at]) for name, at in places.items()}, np.array(begins, np.int64), in_lines=True)


def _texts(values: tuple[str, ...]) -> Array:
    found = np.empty(len(values), object)
    found[:] = [*map(str.strip, values)]
    return found

"""Pieces of a CSV file, which is never in memory as a whole.

1. The file is read in blocks that end where a line does. Quotes around a whole value without separators, quotes and
   line ends are removed.
2. If only numbers are asked for, NumPy parses the lines of a block at once.
3. The lines of a block with other values are split at the separators, and columns of numbers are converted at once.
4. A block with another quote, and all blocks after it, are parsed record by record: a quoted value may have line ends,
   so that a block may end inside a record. A block with records of another length is parsed so for its error.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from io import StringIO, TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import numpy as np

from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.rows.encoding.csv_dialect import SAMPLE_CHARACTERS, dialect_of
from runtime.rows.encoding.csv_rows import header_names, unequal
from runtime.rows.tables.piece import PIECE_CHARACTERS, Piece

MAX_LINE_CHARACTERS: Final = 1 << 26
"""Largest number of characters of a line."""

_QUOTE: Final = '"'


def csv_pieces(
    path: Path, stream: BinaryIO, wanted: Collection[str] | None, *, numbers: Collection[str]
) -> Iterator[Piece]:
    """Yield the pieces of a CSV file.

    Args:
        path: path of the file, for errors and its suffix.
        stream: its content.
        wanted: names of columns that are read where the file has them, or None for all.
        numbers: names of columns that are taken as float64 where all values of a piece are numbers.

    Raises DataError for a file that is no table.
    """
    text = TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    try:
        yield from _pieces(path, text, wanted, numbers=numbers)
    except UnicodeDecodeError as error:
        raise no_utf8(path, error) from None
    finally:
        text.detach()


def no_utf8(path: Path, error: UnicodeDecodeError) -> DataError:
    """Return the error of a file that is not text in UTF-8."""
    how = f"iconv -f latin1 -t utf-8 {path.name}"
    what = f"the file is not text in UTF-8: it has the byte {error.object[error.start]:#x}, as in Latin-1"
    return DataError(f"{path}: {what}; {how} makes it so")


def _pieces(
    path: Path, text: TextIOWrapper, wanted: Collection[str] | None, *, numbers: Collection[str]
) -> Iterator[Piece]:
    sample, blocks = _sampled(_blocks(path, text))
    separator, is_said = dialect_of(path, sample)
    first, line = _from_text(blocks, next(blocks, ""), 1)
    if is_said:
        said = StringIO(first, newline="").readline()
        first, line = _from_text(blocks, first[len(said) :], line + 1)
    names, used, rest = _header(path, first, blocks, separator, line)
    line += used
    places = {name: place for place, name in enumerate(names) if wanted is None or name in wanted}
    form = _Form(path, separator, len(names), places, frozenset(numbers))
    for whole in rest:
        block = _without_quotes(whole, separator)
        if _QUOTE in block or "\0" in block:
            yield from _records(form, chain([whole], rest), line)
            return
        piece = _at_once(form, block, line) or _split(form, block, line)
        if piece is None:
            yield from _records(form, iter([whole]), line)
        elif len(piece):
            yield piece
        line += _lines(whole)


def _sampled(blocks: Iterator[str]) -> tuple[str, Iterator[str]]:
    """Return the beginning of the file, and all its blocks."""
    kept: list[str] = []
    while sum(map(len, kept)) < SAMPLE_CHARACTERS and (block := next(blocks, "")):
        kept.append(block)
    return "".join(kept)[:SAMPLE_CHARACTERS], chain(kept, blocks)


def _from_text(blocks: Iterator[str], first: str, line: int) -> tuple[str, int]:
    """Return a block from its first line that is not blank on, or a later block, and the number of this line."""
    while not first.strip() and (block := next(blocks, "")):
        line += _lines(first)
        first = block
    blank = len(first) - len(first.lstrip("\r\n"))
    return first[blank:], line + _lines(first[:blank])


class _Form(NamedTuple):
    """The form of a file: its columns by number, and those of numbers."""

    path: Path
    separator: str
    width: int
    places: dict[str, int]
    numbers: frozenset[str]


def _without_quotes(block: str, separator: str) -> str:
    """Return a block without its quotes if each pair is around a whole value that needs none; else the block."""
    parts = block.split(_QUOTE)
    outside, inside = parts[::2], parts[1::2]
    if len(parts) == 1 or len(inside) == len(outside) or not all(outside[1:-1]):
        return block
    ends = {separator, "\n", "\r"}
    before = {text[-1] for text in outside[:-1] if text}
    after = {text[0] for text in outside[1:] if text}
    values = "".join(inside)
    return block if not before | after <= ends or any(end in values for end in ends) else "".join(parts)


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


def _at_once(form: _Form, block: str, line: int) -> Piece | None:
    """Return a block whose columns of numbers have numbers alone; None if it has others, or a record of another length.

    NumPy parses the numbers; the other columns are cut out of their lines.
    """
    use = [place for name, place in form.places.items() if name in form.numbers]
    lines = _lines_of(block)
    if not use or _is_odd(block) or lines is None:
        return None
    if any(text.count(form.separator) != form.width - 1 for text in lines):
        return None
    try:
        read = np.loadtxt(lines, np.float64, comments=None, delimiter=form.separator, usecols=use, ndmin=2)
    except ValueError:
        return None
    if len(read) != len(lines):
        return None
    numbers = iter(read.T)
    columns = {
        name: np.ascontiguousarray(next(numbers)) if name in form.numbers else _cut_out(form, lines, place)
        for name, place in form.places.items()
    }
    return Piece(columns, np.arange(line, line + len(lines)), in_lines=True)


def _cut_out(form: _Form, lines: list[str], place: int) -> Array:
    """Return a column of texts, counted from the nearer end of each line."""
    separator, after = form.separator, form.width - place
    if place < after:
        return _texts([text.split(separator, place + 1)[place] for text in lines])
    return _texts([text.rsplit(separator, after)[-after] for text in lines])


def _split(form: _Form, block: str, line: int) -> Piece | None:
    """Return a block without quotes; None if it has an empty line, or a record of another length."""
    lines = _lines_of(block)
    if lines is None or not all(lines):
        return None
    rows = [text.split(form.separator) for text in lines]
    if {*map(len, rows)} != {form.width}:
        return None
    return _piece(form, rows, np.arange(line, line + len(lines)))


def _lines_of(block: str) -> list[str] | None:
    """Return the lines of a block; None if a carriage return alone ends one."""
    if "\r" in block:
        block = block.replace("\r\n", "\n")
        if "\r" in block:
            return None
    return block.removesuffix("\n").split("\n")


def _is_odd(block: str) -> bool:
    """Return True if a block may have numbers that only one of the two parsers takes."""
    return "_" in block or not block.isascii()


def _records(form: _Form, blocks: Iterator[str], line: int) -> Iterator[Piece]:
    """Yield blocks that are parsed record by record, from a line on."""
    path, separator, width = form.path, form.separator, form.width
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
                    yield _piece(form, rows, np.array(begins, np.int64))
                    rows, begins = [], []
            begin = line + reader.line_num
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise DataError(f"{path}: this is no table: a quote in line {begin} is not closed") from None
        raise DataError(f"{path}: this is no table: line {line + reader.line_num - 1}: {error}") from None
    if rows:
        yield _piece(form, rows, np.array(begins, np.int64))


def _piece(form: _Form, rows: list[list[str]], lines: Array) -> Piece:
    values = list(zip(*rows, strict=True))
    columns = {name: _column(values[at], is_number=name in form.numbers) for name, at in form.places.items()}
    return Piece(columns, lines, in_lines=True)


def _column(values: tuple[str, ...], *, is_number: bool) -> Array:
    """Return the values of a column as float64 if they are numbers, and else as texts."""
    if is_number and "_" not in "".join(values):
        with suppress(ValueError):
            return np.fromiter(map(float, values), np.float64, len(values))
    return _texts(values)


def _texts(values: Sequence[str]) -> Array:
    found = np.empty(len(values), object)
    found[:] = values
    return found

"""The columns of a CSV file as texts, by the first line that names them."""

from __future__ import annotations

import csv
from os import fstat
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from prograd_proto.regular_files import open_regular
from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.memory.limit import NO_LIMIT, MemoryLimit
from runtime.rows.encoding.csv_dialect import dialect_of
from runtime.rows.encoding.csv_lines import Lines
from runtime.rows.encoding.values import is_number_text

if TYPE_CHECKING:
    from _csv import Reader

_CHUNK: Final = 1 << 16
"""Number of values that are transposed from rows into columns together."""


class Table(NamedTuple):
    """Columns of texts by name, and the line of the file, int64 [rows], in which each row begins, counted from 1."""

    columns: dict[str, Array]
    lines: Array


def read_csv(path: Path, memory: MemoryLimit = NO_LIMIT) -> Table:
    """Return the columns of a CSV file; tabs separate them if the name of the file ends in .tsv.

    Raises DataError for a file that cannot be read, or is no table; ResourceLimit if its texts do not fit.
    """
    raw = read_regular(path, "the rows", memory)
    longest = csv.field_size_limit(max(len(raw), 1))  # a text of a table may be a whole document
    try:
        return _table(path, Lines(path, raw, memory))
    except UnicodeDecodeError:
        text_of(path, raw)
        raise
    finally:
        csv.field_size_limit(longest)


def read_regular(path: Path, what: str, memory: MemoryLimit = NO_LIMIT) -> bytes:
    """Return the bytes of a regular file; raise DataError, which names `what`, if it cannot be read."""
    try:
        with open_regular(path) as stream:
            size = fstat(stream.fileno()).st_size
            memory.require(size, f"{what} of {path}")
            return stream.read(size)
    except OSError as error:
        raise DataError(f"{path}: {what} cannot be read: {error.strerror or error}") from None


def text_of(path: Path, raw: bytes) -> str:
    """Return the text of a file; raise DataError, which guesses its encoding, unless it is UTF-8."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        wide = raw[:2] in (b"\xff\xfe", b"\xfe\xff")
        form = "it is UTF-16" if wide else f"byte {error.start} is {raw[error.start]:#x}, as in Latin-1"
        how = f"iconv -f {'utf-16' if wide else 'latin1'} -t utf-8 {path.name}"
        raise DataError(f"{path}: the file is not text in UTF-8: {form}; {how} makes it so") from None


def _table(path: Path, lines: Lines) -> Table:
    """Return all records as columns. Raises DataError if they are no table."""
    separator, is_said = dialect_of(path, lines.sample())
    names: list[str] = []
    begins: list[int] = []
    counted = lines.counted(separator, lambda: len(names) * len(begins))
    reader = csv.reader(counted, delimiter=separator, strict=True)
    names.extend(_header(path, reader, skip=is_said))
    columns = _columns(path, reader, len(names), begins)
    return Table({name: _texts(columns, at) for at, name in enumerate(names)}, np.array(begins, np.int64))


def _header(path: Path, reader: Reader, *, skip: bool) -> list[str]:
    """Return the names in the first record that is not empty, or in the second to skip the one with the separator."""
    begin = 1
    try:
        for record in reader:
            if record and not skip:
                return header_names(path, record)
            skip = skip and not record
            begin = reader.line_num + 1
    except csv.Error as error:
        raise _no_table(path, error, begin, reader.line_num) from None
    raise DataError(f"{path}: the file has no line that names columns")


def _columns(path: Path, reader: Reader, width: int, begins: list[int]) -> list[list[str]]:
    """Return the columns of the other records, and append the line in which each begins to `begins`."""
    columns: list[list[str]] = [[] for _ in range(width)]
    rows: list[list[str]] = []
    begin = reader.line_num + 1
    try:
        for record in reader:
            if record:
                if len(record) != width:
                    raise unequal(path, begin, len(record), width)
                rows.append(record)
                begins.append(begin)
                if len(rows) * width >= _CHUNK:
                    _append(columns, rows)
            begin = reader.line_num + 1
    except csv.Error as error:
        raise _no_table(path, error, begin, reader.line_num) from None
    _append(columns, rows)
    return columns


def unequal(path: Path, begin: int, found: int, width: int) -> DataError:
    """Return the error about a record of another length than the first line."""
    return DataError(f"{path}: line {begin} has {found} values, and the first line names {width} columns")


def _no_table(path: Path, error: csv.Error, begin: int, line: int) -> DataError:
    """Return the error about a record that begins in line `begin` and cannot be parsed from `line` on."""
    if "unexpected end" in str(error):
        return DataError(f"{path}: this is no table: a quote in line {begin} is not closed")
    return DataError(f"{path}: this is no table: line {line}: {error}")


def _append(columns: list[list[str]], rows: list[list[str]]) -> None:
    """Append rows to columns, and forget the rows."""
    for column, values in zip(columns, zip(*rows, strict=True), strict=bool(rows)):
        column.extend(values)
    rows.clear()


def header_names(path: Path, record: list[str]) -> list[str]:
    """Return the names of the columns. Raises DataError if one has none, two are alike, or all are numbers."""
    names = [name.strip() for name in record]
    seen: set[str] = set()
    for number, name in enumerate(names):
        if not name:
            index = "; pandas writes a table without its index by to_csv(…, index=False)" if not number else ""
            raise DataError(f"{path}: the first line names columns, and column {number + 1} has no name{index}")
        if name in seen:
            raise DataError(f"{path}: the first line names columns, and {name!r} is there twice")
        seen.add(name)
    if all(is_number_text(name) for name in names):
        raise DataError(
            f"{path}: the first line names columns, and it has numbers, {names[0]!r} the first; "
            "put a line with names before it"
        )
    return names


def _texts(columns: list[list[str]], at: int) -> Array:
    """Return a column as an array of texts, and free its list."""
    column, columns[at] = columns[at], []
    found = np.empty(len(column), object)
    found[:] = column
    return found

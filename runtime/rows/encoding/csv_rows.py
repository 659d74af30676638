"""The columns of a CSV file as texts, by the first line that names them."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Final

import numpy as np

from prograd_proto.regular_files import open_regular
from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.memory_limit import NO_LIMIT, MemoryLimit

PARSED: Final = 16
"""Bytes that a byte of a table takes at most while it is read, as texts of Python."""

_SEPARATORS: Final = (",", ";", "\t")
"""The first of these that the first line has separates columns."""


def read_csv(path: Path, memory: MemoryLimit = NO_LIMIT) -> dict[str, Array]:
    """By name, arrays of texts. Raises DataError for a file that cannot be read, or is no table."""
    try:
        with open_regular(path) as stream:
            memory.require(PARSED * os.fstat(stream.fileno()).st_size, f"the rows of {path}")
            raw = stream.read()
    except OSError as error:
        raise DataError(f"{path}: the rows cannot be read: {error.strerror or error}") from None
    return table_of(path, text_of(path, raw))


def text_of(path: Path, raw: bytes) -> str:
    """The text of a file. Raises DataError, which says how it may be encoded, unless it is UTF-8."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        wide = raw[:2] in (b"\xff\xfe", b"\xfe\xff")
        form = "it is UTF-16" if wide else f"byte {error.start} is {raw[error.start]:#x}, as in Latin-1"
        how = f"iconv -f {'utf-16' if wide else 'latin1'} -t utf-8 {path.name}"
        raise DataError(f"{path}: the file is not text in UTF-8: {form}; {how} makes it so") from None


def table_of(path: Path, text: str) -> dict[str, Array]:
    """The columns of a table in a text; tabs separate them if the name of the file ends in .tsv."""
    lines = _lines(path, text, "\t" if path.suffix.lower() == ".tsv" else _separator(text))
    if not lines:
        raise DataError(f"{path}: the file has no line that names columns")
    names = [name.strip() for name in lines[0]]
    _require_names(path, names)
    for number, line in enumerate(lines[1:]):
        if len(line) != len(names):
            raise DataError(f"{path}: row {number} has {len(line)} values, and there are {len(names)} columns")
    columns = zip(*lines[1:], strict=True) if len(lines) > 1 else [()] * len(names)
    return {name: _texts(column) for name, column in zip(names, columns, strict=True)}


def _separator(text: str) -> str:
    first = next((line for line in text.splitlines() if line.strip()), "")
    return next((separator for separator in _SEPARATORS if separator in first), ",")


def _lines(path: Path, text: str, separator: str) -> list[list[str]]:
    lines: list[list[str]] = []
    longest = csv.field_size_limit(max(len(text), 1))  # a text of a table may be a whole document
    try:
        for line in csv.reader(text.splitlines(keepends=True), delimiter=separator, strict=True):
            lines.extend([line] if line else [])
    except csv.Error as error:
        where = f"after row {len(lines) - 2}" if len(lines) > 1 else "at its start"
        what = "a quote is not closed" if "unexpected end" in str(error) else str(error)
        raise DataError(f"{path}: this is no table: {where} {what}") from None
    finally:
        csv.field_size_limit(longest)
    return lines


def _require_names(path: Path, names: list[str]) -> None:
    for number, name in enumerate(names):
        if not name:
            index = "; pandas writes a table without its index by to_csv(…, index=False)" if not number else ""
            raise DataError(f"{path}: the first line names columns, and column {number + 1} has no name{index}")
        if name in names[:number]:
            raise DataError(f"{path}: the first line names columns, and {name!r} is there twice")
    if all(_is_number(name) for name in names):
        raise DataError(
            f"{path}: the first line names columns, and it has numbers, {names[0]!r} the first; "
            "put a line with names before it"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _texts(column: tuple[str, ...]) -> Array:
    found = np.empty(len(column), object)
    found[:] = [text.strip() for text in column]
    return found

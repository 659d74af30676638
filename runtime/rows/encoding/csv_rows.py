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


def read_csv(path: Path, memory: MemoryLimit = NO_LIMIT) -> dict[str, Array]:
    """By name, arrays of texts. Raises DataError for a file that cannot be read, or is no table."""
    try:
        with open_regular(path) as stream:
            memory.require(PARSED * os.fstat(stream.fileno()).st_size, f"the rows of {path}")
            text = stream.read().decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{path}: the rows cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: the file is not text in UTF-8") from None
    return table_of(path, text)


def table_of(path: Path, text: str) -> dict[str, Array]:
    """The columns of a table in a text; tabs separate them if the name of the file ends in .tsv."""
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    try:
        lines = [line for line in csv.reader(text.splitlines(keepends=True), delimiter=delimiter, strict=True) if line]
    except csv.Error as error:
        raise DataError(f"{path}: this is no table: {error}") from None
    if not lines:
        raise DataError(f"{path}: the file has no line that names columns")
    names = [name.strip() for name in lines[0]]
    for number, name in enumerate(names):
        if not name or name in names[:number]:
            raise DataError(f"{path}: the first line names columns, and {name!r} is no name, or there twice")
    for number, line in enumerate(lines[1:]):
        if len(line) != len(names):
            raise DataError(f"{path}: row {number} has {len(line)} values, and there are {len(names)} columns")
    columns = zip(*lines[1:], strict=True) if len(lines) > 1 else [()] * len(names)
    return {name: _texts(column) for name, column in zip(names, columns, strict=True)}


def _texts(column: tuple[str, ...]) -> Array:
    found = np.empty(len(column), object)
    found[:] = [text.strip() for text in column]
    return found

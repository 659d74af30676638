"""Pieces of a file of JSON lines: an object on each line, whose members are the values of a row."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from json import loads
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import numpy as np

from prograd_proto.spelling import closest
from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.rows.tables.columns import as_column, column_name, require_new
from runtime.rows.tables.piece import PIECE_ROWS, Piece

MAX_LINE_BYTES: Final = 1 << 26
"""Largest number of bytes of a line."""


def json_pieces(path: Path, stream: BinaryIO, needed: Collection[str]) -> Iterator[Piece]:
    """Yield the pieces of JSON lines; a member that a row lacks is a missing value, unless it is needed.

    Raises DataError, which names the line, for anything but an object on a line, and for one without a needed member.
    """
    objects = _objects(path, stream)
    while piece := list(islice(objects, PIECE_ROWS)):
        for line, row in piece if needed else ():
            _require(path, line, row, needed)
        yield piece_of([row for _, row in piece], np.array([line for line, _ in piece], np.int64), in_lines=True)


def _require(path: Path, line: int, row: dict[str, Any], needed: Collection[str]) -> None:
    if not all(name in row for name in needed):
        given = {column_name(name) for name in row}
        for name in needed:
            if name not in given:
                hint = closest(name, given) or "; give null for a missing value"
                raise DataError(f"{path}: line {line} has no {name!r}{hint}")


def piece_of(rows: list[dict[str, Any]], numbers: Any, *, in_lines: bool) -> Piece:
    """Return rows that are objects as columns."""
    columns: dict[str, Array] = {}
    for key in dict.fromkeys(name for row in rows for name in row):
        name = column_name(key)
        require_new("the table", name, columns)
        columns[name] = as_column([row.get(key) for row in rows])
    return Piece(columns, numbers, in_lines)


def _objects(path: Path, stream: BinaryIO) -> Iterator[tuple[int, dict[str, Any]]]:
    line = 0
    while raw := stream.readline(MAX_LINE_BYTES):
        line += 1
        if not raw.strip():
            continue
        try:
            row: object = loads(raw)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}: line {line} is no JSON: {error}") from None
        if not isinstance(row, dict):
            what = type(row).__name__
            raise DataError(f'{path}: line {line} is of type {what}; each line is an object, as in {{"age": 31}}')
        yield line, cast(dict[str, Any], row)

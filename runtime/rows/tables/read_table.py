"""The pieces of a table, by the suffix of its file."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np

from runtime.dtypes import Array
from runtime.errors import DataError, UsageError
from runtime.memory.limit import NO_LIMIT, MemoryLimit
from runtime.rows.encoding.csv_lines import VALUE_BYTES
from runtime.rows.encoding.csv_rows import read_csv
from runtime.rows.table_names import TEXTS, is_table, suffix_of
from runtime.rows.tables.columns import joined_columns
from runtime.rows.tables.opened import opened
from runtime.rows.tables.piece import Piece


def read_table(path: Path, memory: MemoryLimit = NO_LIMIT) -> Piece:
    """Return all rows of a table as one piece; for errors see `table_pieces`; ResourceLimit if they do not fit."""
    if path.suffix.lower() in (".csv", ".tsv"):
        table = read_csv(path, memory)
        return Piece(table.columns, table.lines, in_lines=True)
    pieces: list[Piece] = []
    for piece in table_pieces(path, None):
        memory.take_for(piece.numbers, VALUE_BYTES * len(piece) * len(piece.columns), f"the rows of {path}")
        pieces.append(piece)
    names = dict.fromkeys(name for piece in pieces for name in piece.columns)
    columns = {name: joined_columns([_column(piece, name) for piece in pieces]) for name in names}
    return Piece(columns, np.concatenate([piece.numbers for piece in pieces]), pieces[0].in_lines)


def _column(piece: Piece, name: str) -> Array:
    """Return a column of a piece; JSON lines may lack it in all rows of a piece."""
    if name in piece.columns:
        return piece.columns[name]
    missing = np.empty(len(piece), object)
    missing[:] = ""
    return missing


def table_pieces(
    path: Path, wanted: Collection[str] | None, *, numbers: Collection[str] = (), needed: Collection[str] = ()
) -> Iterator[Piece]:
    """Yield the pieces of a table.

    Args:
        path: path of the file.
        wanted: names of columns that are read where the file has them, or None for all; JSON lines have all.
        numbers: names of columns that a CSV file gives as float64 where all values of a piece are numbers.
        needed: names of members that each line of JSON has; one without is refused, and not read as missing values.

    Raises DataError for a file that cannot be read or has no row, UsageError for another suffix.
    """
    if not is_table(path):
        raise UsageError(f"{path}: tables are called *.csv, *.tsv, *.jsonl, *.txt, these with .gz, or *.parquet")
    count = 0
    for piece in _pieces(path, wanted, numbers, needed):
        count += len(piece)
        yield piece
    if not count:
        raise DataError(f"{path}: the table has no rows; give some below the names of its columns")


def _pieces(
    path: Path, wanted: Collection[str] | None, numbers: Collection[str], needed: Collection[str]
) -> Iterator[Piece]:
    with opened(path) as stream:
        match suffix_of(path):
            case ".csv" | ".tsv":
                from runtime.rows.tables.csv_pieces import csv_pieces

                yield from csv_pieces(path, stream, wanted, numbers=numbers)
            case ".jsonl" | ".ndjson":
                from runtime.rows.tables.json_pieces import json_pieces

                yield from json_pieces(path, stream, needed)
            case suffix if suffix in TEXTS:
                from runtime.rows.tables.text_pieces import text_pieces

                yield from text_pieces(path, stream)
            case _:
                from runtime.rows.tables.arrow import parquet_pieces

                row = 0
                for columns, rows in parquet_pieces(path, stream, wanted):
                    yield Piece(columns, np.arange(row, row + rows), in_lines=False)
                    row += rows

"""Some consecutive rows of a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from runtime.dtypes import Array
from runtime.rows.tables.columns import joined_columns

PIECE_CHARACTERS: Final = 1 << 21
"""Characters of a text file that are read at a time."""

PIECE_ROWS: Final = 8192
"""Rows of other files that are read at a time."""


class Piece(NamedTuple):
    """Columns of values by name, and for each row its number in the source, or the line in which it begins.

    Attributes:
        columns: values by column, as `Column.encode` takes them.
        numbers: int64 [rows], numbers counted from 0, or lines counted from 1.
        in_lines: True if the numbers are lines.
    """

    columns: dict[str, Array]
    numbers: Array
    in_lines: bool

    def __len__(self) -> int:
        return len(self.numbers)


def with_rows_before(pieces: Iterable[Piece], count: int) -> Iterator[Piece]:
    """Yield pieces that begin with the last `count` rows of the piece before; the first has more than `count` rows.

    If all pieces together have at most `count` rows, they are one piece.
    """
    kept: Piece | None = None
    begun = False
    for piece in pieces:
        joined = piece if kept is None else _joined(kept, piece)
        if len(joined) > count:
            begun = True
            yield joined
            joined = _last(joined, count)
        kept = joined if count else None
    if kept is not None and not begun:
        yield kept


def _joined(a: Piece, b: Piece) -> Piece:
    columns = {name: joined_columns([a.columns[name], b.columns[name]]) for name in a.columns if name in b.columns}
    return Piece(columns, np.concatenate([a.numbers, b.numbers]), a.in_lines)


def _last(piece: Piece, count: int) -> Piece:
    start = len(piece) - count
    return Piece({name: array[start:] for name, array in piece.columns.items()}, piece.numbers[start:], piece.in_lines)

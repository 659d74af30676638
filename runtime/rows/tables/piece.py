"""Some consecutive rows of a table."""

from __future__ import annotations

from typing import Final, NamedTuple

from runtime.dtypes import Array

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

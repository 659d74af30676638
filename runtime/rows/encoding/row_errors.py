"""Errors that name a row, by its number or, in a table that was read from a file, by its line."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from runtime.dtypes import Array
from runtime.errors import DataError


class RowError(DataError):
    """A value of a row that cannot be used.

    Attributes:
        row: number of the row, counted from 0.
        column: name of the column.
        what: end of the sentence, as in "is 'x', which is no number".
    """

    def __init__(self, row: int, column: str, what: str) -> None:
        super().__init__(f"row {row} of {column!r} {what}")
        self.row = int(row)
        self.column = column
        self.what = what


@contextmanager
def original_rows(numbers: Array | None, *, lines: bool) -> Generator[None]:
    """Name rows in errors as the source counts them.

    Args:
        numbers: int64 [rows], for each row its number in the source, or its line; None where rows count from 0.
        lines: the numbers are lines of a text file.
    """
    try:
        yield
    except RowError as error:
        if numbers is None or error.row >= len(numbers):
            raise
        number = int(numbers[error.row])
        if lines:
            raise DataError(f"line {number}: {error.column!r} {error.what}") from None
        raise RowError(number, error.column, error.what) from None

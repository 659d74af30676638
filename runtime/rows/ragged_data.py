"""Columns of a data file whose rows are of unequal length, by the names that their arrays have."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prograd_proto.ragged_names import OFFSETS, PADDING
from runtime.errors import DataError
from runtime.rows.data_files import Columns
from runtime.rows.ragged import RaggedColumn
from runtime.rows.stored_column import StoredColumn, rows_of


def ragged_column(file: Path, key: str, columns: Columns) -> RaggedColumn:
    """Return the column; raise DataError if its arrays do not fit each other, or lie in several files."""
    if len(columns.lengths) > 1:
        raise DataError(f"{file}: {key!r} has rows of unequal length, which are read from one file; join the files")
    if key not in columns.by_key:
        raise DataError(f"{file}: there is {key + OFFSETS!r}, and no {key!r} whose rows it counts")
    values, offsets, padding = columns.by_key[key], columns.by_key[key + OFFSETS], columns.by_key.get(key + PADDING)
    if isinstance(offsets, StoredColumn):
        offsets = rows_of(offsets, np.arange(len(offsets)))
    if isinstance(padding, StoredColumn):
        padding = rows_of(padding, np.arange(len(padding))) if padding.shape else None
    try:
        return RaggedColumn(key, values, offsets, padding)
    except DataError as error:
        raise DataError(f"{file}: {error}") from None

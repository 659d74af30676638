"""Text files: a row for each line, or for each window of bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.rows.encoding.csv_rows import text_of


def read_lines(path: Path) -> dict[str, Array]:
    """The lines that are not empty, as the column `text`. Raises DataError if the file cannot be read."""
    try:
        lines = [line for line in text_of(path, path.read_bytes()).splitlines() if line.strip()]
    except OSError as error:
        raise DataError(f"{path}: the text cannot be read: {error.strerror or error}") from None
    found = np.empty(len(lines), object)
    found[:] = lines
    return {"text": found}


def read_windows(path: Path, window: int) -> dict[str, Array]:
    """The bytes, so many in a row, as `text`: uint8; what does not fill a row is left out."""
    try:
        raw = np.frombuffer(path.read_bytes(), np.uint8)
    except OSError as error:
        raise DataError(f"{path}: the text cannot be read: {error.strerror or error}") from None
    rows = len(raw) // window
    if not rows:
        raise DataError(f"{path}: the file has {len(raw)} bytes, a row takes {window}")
    return {"text": raw[: rows * window].reshape(rows, window)}

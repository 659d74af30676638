"""Text files: a row for each line, or for each window of bytes."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np

from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.rows.encoding.csv_rows import Table, read_regular, text_of


def read_lines(path: Path) -> Table:
    """Return the lines that are not empty as the column `text`; LF, CR or both end a line, and nothing else does.

    Raises DataError if the file cannot be read.
    """
    text = text_of(path, read_regular(path, "the text"))
    lines = [(number, line) for number, line in enumerate(StringIO(text, newline=None), 1) if line.strip()]
    found = np.empty(len(lines), object)
    found[:] = [line.removesuffix("\n") for _, line in lines]
    return Table({"text": found}, np.array([number for number, _ in lines], np.int64))


def read_windows(path: Path, window: int, stride: int | None) -> dict[str, Array]:
    """Return the bytes of a file as `text`, uint8 [rows, window]; bytes that do not fill a row are left out.

    Rows begin `stride` bytes after each other, and overlap if that is less than their length.
    """
    raw = np.frombuffer(read_regular(path, "the text"), np.uint8)
    if len(raw) < window:
        raise DataError(f"{path}: the file has {len(raw)} bytes, a row takes {window}")
    view = np.lib.stride_tricks.sliding_window_view(raw, window)
    return {"text": np.ascontiguousarray(view[:: stride or window])}

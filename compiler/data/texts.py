"""Text files: a row for each line, or for each window of bytes or of subwords."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np

from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.rows.encoding.column import Column
from runtime.rows.encoding.csv_rows import Table, read_regular, text_of
from runtime.rows.encoding.subwords import tokens_by, trained_tokenizer


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
    return {"text": _windows(path, raw, "bytes", window, stride)}


def read_subwords(path: Path, window: int, stride: int | None, vocabulary: int) -> tuple[dict[str, Array], Column]:
    """Return the subwords of a file as `text`, int64 [rows, window], and their encoding, which the file itself gives.

    Windows and strides are counted in subwords; subwords that do not fill a row are left out.

    Raises DataError if the file cannot be read, or has less than a window; UsageError without `tokenizers`.
    """
    text = text_of(path, read_regular(path, "the text"))
    column = Column("text", "text", length=window, tokenizer=trained_tokenizer([text], vocabulary))
    numbers = np.array(tokens_by(column.tokenizer, [text])[0], np.int64)
    return {"text": _windows(path, numbers, "subwords", window, stride)}, column


def _windows(path: Path, elements: Array, what: str, window: int, stride: int | None) -> Array:
    if len(elements) < window:
        raise DataError(f"{path}: the file has {len(elements)} {what}, a row takes {window}")
    view = np.lib.stride_tricks.sliding_window_view(elements, window)
    return np.ascontiguousarray(view[:: stride or window])

"""Rows that a caller names instead of giving them: a table, an image, a folder of images, or a split."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from prograd_proto.spelling import closest
from runtime.dtypes import Array
from runtime.errors import DataError, UsageError
from runtime.rows.encoding.row_errors import original_rows
from runtime.rows.rows import Rows
from runtime.rows.table_names import are_images, is_table
from runtime.rows.tables.image_files import image_names, image_paths
from runtime.rows.tables.read_table import read_table
from runtime.runs.raw.answers import Answer, answers_of
from runtime.runs.raw.image_rows import ImageRows
from runtime.runs.raw.raw_rows import RawRows
from runtime.runs.session import Session


class NamedRows(NamedTuple):
    """Rows for an entry, the meaning of its fetches, and the names of images; None for other rows."""

    rows: Rows
    answers: list[Answer]
    names: Array | None = None


def named_rows(session: Session, entry: str, given: str | os.PathLike[str]) -> NamedRows:
    """Return the rows of a file, a folder of images, or a split, for an entry.

    Raises UsageError if the name is neither file, folder nor split, DataError for rows that cannot be read or encoded.
    """
    name, path = os.fspath(given), Path(given)
    if any(split.name == name for split in session.program.data.splits) and not path.exists():
        encoding = session.data.encoding() if session.data.is_encoded else None
        bound = session.bindings(entry)[0]
        answers = [] if encoding is None else answers_of(session.program, bound, encoding)
        return NamedRows(session.rows(entry, name), answers)
    if not (is_table(path) or are_images(path)):
        splits = [split.name for split in session.program.data.splits]
        hint = closest(name, splits) or "; name a table, an image or a folder of images, or give arrays"
        raise UsageError(f"{name!r} is neither a table nor an image, nor a split of the data{hint}")
    if not session.data.is_encoded:
        raise UsageError(f"{name!r} names rows, and the program has no encoding of them; give arrays for its feeds")
    if are_images(path):
        images, paths = ImageRows(session, entry), image_paths(path)
        return NamedRows(session.rows(entry, images.feeds(paths)), images.answers, image_names(paths, path))
    rows, table = RawRows(session, entry), read_table(path, session.memory)
    try:
        with original_rows(table.numbers, lines=table.in_lines):
            return NamedRows(session.rows(entry, rows.feeds(table.columns)), rows.answers)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None

"""Files of tables, opened as streams; a file whose name ends in .gz is decompressed while it is read."""

from __future__ import annotations

import zlib
from collections.abc import Generator
from contextlib import contextmanager
from gzip import BadGzipFile, GzipFile
from pathlib import Path
from typing import BinaryIO, cast

from prograd_proto.regular_files import open_regular
from runtime.errors import DataError
from runtime.rows.table_names import ZIPPED


@contextmanager
def opened(path: Path) -> Generator[BinaryIO]:
    """Open a regular file, and decompress it if it ends in .gz; raise DataError if it cannot be read."""
    try:
        with open_regular(path) as file:
            if path.suffix.lower() != ZIPPED:
                yield file
                return
            with GzipFile(fileobj=file, mode="rb") as stream:
                yield cast(BinaryIO, stream)
    except (BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}: this is no whole file of gzip: {error}; write it again by gzip") from None
    except OSError as error:
        raise DataError(f"{path}: the rows cannot be read: {error.strerror or error}") from None

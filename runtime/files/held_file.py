"""Files that stay open for reads at any offset during a run, and must stay as they were when they were verified.

They are read at an offset and not mapped into memory, for the reasons that `file_reader` gives. Mapped pages would also
count as memory of the process. Few files are open at a time: a run may have thousands, and the system allows few.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Final

from prograd_proto.regular_files import open_regular
from runtime.errors import DataError

CAN_HOLD: Final = hasattr(os, "preadv") and sys.byteorder == "little"
"""True if this system reads at an offset and has the byte order of the files."""

MOST_OPEN: Final = 16


class HeldFile:
    """A file that was read whole once, with its status at that time; threads may share it."""

    def __init__(self, path: Path, seen: os.stat_result, open_files: OpenFiles) -> None:
        self.path = path
        self._seen = _mark(seen)
        self._open_files = open_files
        self._open: _Open | None = None

    def read(self, offset: int, out: memoryview) -> None:
        """Fill `out` with the bytes from `offset` on; raise DataError if they cannot be read."""
        descriptor = self._descriptor()
        while len(out):
            try:
                count = os.preadv(descriptor.number, [out], offset)
            except OSError as error:
                raise DataError(f"{self.path}: the rows cannot be read: {error.strerror or error}") from None
            if not count:
                raise self._changed()
            offset += count
            out = out[count:]

    def require_unchanged(self) -> None:
        """Raise DataError if the file was written to since it was verified."""
        if _mark(os.fstat(self._descriptor().number)) != self._seen:
            raise self._changed()

    def _descriptor(self) -> _Open:
        return self._open or self._opened()

    def _opened(self) -> _Open:
        with self._open_files.lock:
            try:
                with open_regular(self.path) as stream:
                    self._open = made = _Open(os.dup(stream.fileno()))
            except OSError as error:
                raise DataError(f"{self.path}: the rows cannot be read: {error.strerror or error}") from None
            self._open_files.note(self)
        self.require_unchanged()
        return made

    def forget(self) -> None:
        """Close the file once no thread reads it any more."""
        self._open = None

    def _changed(self) -> DataError:
        return DataError(f"{self.path}: the file was changed while its rows are read; leave it as it is during a run")


class OpenFiles:
    """The set of open files; when there are too many, the one that was opened first is closed."""

    def __init__(self) -> None:
        self.lock = Lock()
        self._files: deque[HeldFile] = deque()

    def note(self, file: HeldFile) -> None:
        """Add a file that was opened."""
        self._files.append(file)
        if len(self._files) > MOST_OPEN:
            self._files.popleft().forget()


class _Open:
    """A descriptor that is closed with its last reference."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self, close: Callable[[int], None] = os.close) -> None:  # an own reference: at exit modules are empty
        close(self.number)


def _mark(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

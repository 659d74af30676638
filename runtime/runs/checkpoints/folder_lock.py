"""A lock by which one process at a time writes into a folder; the system releases it when its process ends.

The lock is POSIX's (`fcntl`), on a file in the folder that also names its holder. It works on NFS, and child processes
do not inherit it. A set excludes other threads of the process. Windows has no such locks, and gets none.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress
from errno import EACCES, EAGAIN
from pathlib import Path
from typing import Final

from runtime.errors import UsageError
from runtime.files.output import writing

NAME: Final = ".prograd-lock"

_ours: Final[set[str]] = set()  # folders that this process has locked
_guard: Final = threading.Lock()
_log = logging.getLogger("prograd")


class FolderLock:
    """A folder that this process alone writes into, until it releases the lock."""

    def __init__(self, folder: Path) -> None:
        """Lock the folder.

        Raises UsageError if another process, or another run of this one, holds the lock, and other errors as
        `unwritable`.
        """
        self._folder = os.path.realpath(folder)
        self._file = os.path.join(self._folder, NAME)
        self._process = os.getpid()
        self._descriptor: int | None = None
        with _guard:
            if self._folder in _ours:
                raise UsageError(f"{folder}: another run of this process writes checkpoints here; name another folder")
            with writing(folder):
                self._descriptor = self._locked(folder)
            _ours.add(self._folder)

    def release(self) -> None:
        """Release the folder; a second call does nothing."""
        if self._descriptor is None or os.getpid() != self._process:
            return
        descriptor, self._descriptor = self._descriptor, None
        with _guard:
            _ours.discard(self._folder)
            with suppress(OSError):
                os.unlink(self._file)  # while it is locked: a process that opened it meanwhile finds another file there
            with suppress(OSError):
                os.close(descriptor)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.release()

    def _locked(self, folder: Path) -> int:
        """Return the descriptor of the lock file, checked to be the file that has the name."""
        while True:
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
            descriptor = os.open(self._file, flags, 0o666)
            try:
                _lock(descriptor, folder)
                if os.path.samestat(os.fstat(descriptor), os.stat(self._file)):
                    with suppress(OSError):  # a full disk: the lock holds all the same
                        os.ftruncate(descriptor, 0)
                        os.write(descriptor, f"{self._process}\n".encode())
                    return descriptor
            except FileNotFoundError:  # its holder has just released it
                pass
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        return
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (EACCES, EAGAIN):  # a file system without locks
            _log.warning("%s: the folder cannot be locked, so let no other process write into it: %s", folder, error)
            return
        holder = os.read(descriptor, 20).decode("ascii", "replace").strip()
        who = f"process {holder}" if holder.isdecimal() else "another process"
        raise UsageError(f"{folder}: {who} writes checkpoints here; wait for its end, or name another folder") from None

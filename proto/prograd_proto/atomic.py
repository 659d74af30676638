"""Atomic replacement of files: a file has either its old content or its new content, whatever happens in between."""

import os
from collections.abc import Callable
from contextlib import suppress
from stat import S_IMODE, S_ISREG
from typing import BinaryIO, Final

from prograd_proto.wording import as_asked

TEMPORARY_FILES: Final[set[str]] = set()
"""Temporary files that this process is writing; others with its process id are left over from an earlier process."""


def write_atomically(
    path: str | os.PathLike[str], content: bytes | Callable[[BinaryIO], object], *, force: bool = False
) -> None:
    """Put `content` (bytes, or a function that writes them) at `path`, whole or not at all.

    The bytes go to a temporary file in the same folder, reach the disk, and then take the name in one step; the folder
    reaches the disk last. On any failure the temporary file is removed and the file at `path` is unchanged. A symbolic
    link keeps pointing where it did, and a replaced file keeps its mode.

    Raises FileExistsError if a file is at `path` and `force` is False. Other OSErrors, and exceptions of the function,
    propagate.
    """
    target = os.path.realpath(path)
    mode = mode_to_replace(target, force)
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, f".prograd-{os.getpid()}-{os.urandom(6).hex()}.tmp")
    TEMPORARY_FILES.add(temporary)
    try:
        _write(temporary, content)
        try:
            if mode is not None:
                os.chmod(temporary, mode)
            os.replace(temporary, target)
        except BaseException:
            _remove(temporary)
            raise
    finally:
        TEMPORARY_FILES.discard(temporary)
    sync_folder(folder)


def _write(temporary: str, content: bytes | Callable[[BinaryIO], object]) -> None:
    """Write a new file to the disk; remove it if that fails."""
    # Exclusive: never write through a file or a link that another user put there. 0o666: the umask decides.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if isinstance(content, bytes):
                file.write(content)
            else:
                content(file)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:  # an interrupt must remove the temporary file too
        _remove(temporary)
        raise


def _remove(temporary: str) -> None:
    with suppress(OSError):  # report the first error to the caller
        os.unlink(temporary)


def mode_to_replace(target: str, force: bool) -> int | None:
    """Return the mode of the file to replace, None if there is none; raise FileExistsError without `force`."""
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if not S_ISREG(mode):  # a rename over a device such as /dev/null would destroy it
        raise OSError("what is there is not a regular file")
    if not force:
        raise FileExistsError(f"the file exists; {as_asked('--force', 'force=True')} replaces it")
    return S_IMODE(mode)


def sync_folder(folder: str) -> None:
    """Make a rename in `folder` survive a power failure."""
    if os.name != "posix":  # elsewhere a folder cannot be opened, and renames are journalled
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Opening regular files only, because opening a pipe or a device may wait forever."""

import os
from errno import EINVAL, EISDIR
from io import BufferedReader
from stat import S_ISDIR, S_ISREG


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file, or a link to one, to read its bytes; never wait for another kind of file.

    Raises OSError, whose `strerror` says the reason: there is no such file, it is a folder, a pipe, a device or a loop
    of links, or it must not be read.
    """
    _require_regular(os.stat(path))  # even opening a device may have an effect
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)  # do not wait if a pipe has replaced the file meanwhile
    try:
        _require_regular(os.fstat(descriptor))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _require_regular(status: os.stat_result) -> None:
    if S_ISDIR(status.st_mode):
        raise OSError(EISDIR, "this is a folder, not a file")
    if not S_ISREG(status.st_mode):
        raise OSError(EINVAL, "this is not a regular file")

"""Regular files, opened to read or to append; opening a pipe or a device may wait forever."""

import os
from errno import EFBIG, EINVAL, EISDIR
from io import BufferedReader, TextIOWrapper
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


def read_regular_text(path: str | os.PathLike[str], most: int) -> str:
    """Return the text of a regular file in UTF-8.

    Raises OSError as `open_regular` does, and for more than `most` bytes; UnicodeDecodeError for another encoding.
    """
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise OSError(EFBIG, f"it has more than {most} bytes")
        return file.read().decode("utf-8")


def open_lines(path: str | os.PathLike[str], *, append: bool) -> TextIOWrapper:
    """Open a file to write lines of text, new ones after those that it has or in their place.

    Raises OSError as `open_regular` does; a file that does not exist is made.
    """
    if os.path.lexists(path):
        _require_regular(os.stat(path))
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(path, flags if append else flags | os.O_TRUNC, 0o666)
    try:
        _require_regular(os.fstat(descriptor))
        return os.fdopen(descriptor, "a", encoding="utf-8", buffering=1)
    except BaseException:
        os.close(descriptor)
        raise


def _require_regular(status: os.stat_result) -> None:
    if S_ISDIR(status.st_mode):
        raise OSError(EISDIR, "this is a folder, not a file")
    if not S_ISREG(status.st_mode):
        raise OSError(EINVAL, "this is not a regular file")

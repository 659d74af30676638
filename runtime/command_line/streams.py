"""The process's own streams: results go to stdout and must arrive, messages go to stderr and may be lost.

A run is worth more than its messages. So no failure of stderr is an error: a full disk, a closed terminal, no stderr at
all. A failure of stdout ends the command, after everything else is done.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any, Final, Literal, TextIO

from runtime.errors import DataError
from runtime.files.output import unwritable

STDOUT: Final = "stdout"

_COLUMNS: Final = 80  # of a terminal that does not report its size, as those of some programs


def put(text: str) -> None:
    """Print a result; raise errors as `put_part` does."""
    put_part(text + "\n")


def put_part(text: str) -> None:
    """Print a part of a line of a result.

    Raises ResourceLimit if stdout is a file on a full disk, BrokenPipeError if its reader has left, DataError if it
    cannot be written for another reason, such as being closed.
    """
    if sys.stdout is None:  # None if the process was started without stdout
        raise DataError(f"{STDOUT}: the results cannot be written: it is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritable(STDOUT, error) from None


def say(text: str) -> None:
    """Print a line to stderr if possible."""
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]: as above
        return
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):  # ValueError: the stream is closed
        pass


class Forgiving:
    """A replacement of stderr or stdout for a library, which ignores failures to write."""

    def __init__(self, stream: Literal["stderr", "stdout"]) -> None:
        self._name = stream

    def write(self, text: str) -> int:
        """Write the text if possible."""
        with suppress(OSError, ValueError, AttributeError):  # AttributeError: there is no such stream
            getattr(sys, self._name).write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream if possible."""
        with suppress(OSError, ValueError, AttributeError):
            getattr(sys, self._name).flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(sys, self._name), name)


def is_terminal(stream: TextIO | None = None) -> bool:
    """Return True if a stream, by default stderr, is a terminal."""
    try:
        return (sys.stderr if stream is None else stream).isatty()
    except (AttributeError, ValueError):
        return False


def columns(stream: TextIO | None = None) -> int:
    """Return the columns of the terminal of a stream, by default stderr; 80 if it does not report them."""
    try:
        return os.get_terminal_size((sys.stderr if stream is None else stream).fileno()).columns or _COLUMNS
    except (OSError, AttributeError, ValueError):
        return _COLUMNS


def open_missing() -> None:
    """Open the null device for standard streams that are closed.

    Otherwise the next file that is opened gets the number of stdout or stderr, and messages are written into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number


def settle() -> None:
    """Flush stdout and stderr, or drop their content: Python exits with code 120 if it cannot flush at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            drop(stream)
        except (AttributeError, ValueError):  # there is no such stream
            pass


def drop(stream: TextIO) -> None:
    """Redirect the stream, and its unwritten content, to the null device."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)

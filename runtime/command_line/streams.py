"""The process's own streams: results go to stdout and must arrive, words go to stderr and may be lost.

A run is worth more than what is said of it. So nothing that happens to stderr is an error: a full disk, a terminal that
was closed, no stderr at all. What happens to stdout ends the command, after everything else is done.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any, Final, TextIO

from runtime.errors import DataError
from runtime.files.output import unwritable

STDOUT: Final = "stdout"


def put(text: str) -> None:
    """Print a result.

    Raises ResourceLimit if stdout is a file on a full disk, BrokenPipeError if its reader has left, DataError if it
    cannot be written for another reason, such as being closed.
    """
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]: it is, where the process was started without
        raise DataError(f"{STDOUT}: the results cannot be written: it is closed")
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritable(STDOUT, error) from None


def say(text: str) -> None:
    """Put a line on stderr, if that can be done."""
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]: as above
        return
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):  # ValueError: it is closed
        pass


class Forgiving:
    """stderr for a library that writes to it: failures are not its affair."""

    def write(self, text: str) -> int:
        """Write it, if that can be done."""
        with suppress(OSError, ValueError, AttributeError):  # AttributeError: there is none
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush it, if that can be done."""
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)


def is_terminal() -> bool:
    """Whether stderr is one."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False


def is_without_size() -> bool:
    """Whether stderr is a terminal that has 0 lines or columns, as those of some programs say."""
    try:
        return not all(os.get_terminal_size(sys.stderr.fileno()))
    except (OSError, AttributeError, ValueError):
        return False


def open_missing() -> None:
    """Put the null device in the place of standard streams that are closed.

    Otherwise the next file that is opened takes the number of stdout or stderr, and words are written into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


def settle() -> None:
    """Write what is left, or drop it: Python ends with a code of its own, 120, where it cannot flush at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            drop(stream)
        except (AttributeError, ValueError):  # there is none
            pass


def drop(stream: TextIO) -> None:
    """Let the stream, and what it still holds, go nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)

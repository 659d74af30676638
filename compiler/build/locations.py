"""The user's line of an op, as an entry of the program's string table."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from types import FrameType

from prograd_proto import argument_kinds

_OWN = (
    *(str(Path(__file__).parents[2] / room) + os.sep for room in ("compiler", "registry", "prograd")),
    contextlib.__file__,  # our context managers are entered through it
    argument_kinds.__file__,  # and our methods through this
)


class Locations:
    """A table of "file:line" texts; number n stands for entry n - 1, and 0 for unknown."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[tuple[str, int], int] = {}

    def here(self) -> int:
        """Return the number of the innermost line outside the compiler, the registry and the layers."""
        key = _line_outside(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]: the documented way to the caller's frame
        return 0 if key is None else self.number(*key)

    def number(self, path: str, line: int) -> int:
        """Return the number of a line of a file."""
        key = path, line
        if key not in self._numbers:
            self.texts.append(_text(key))
            self._numbers[key] = len(self.texts)
        return self._numbers[key]

    def text(self, number: int) -> str:
        """Return the text of a number; "" for 0."""
        return self.texts[number - 1] if number else ""


def line_here() -> str:
    """Return the text of that line, for a later error; "" if it is unknown."""
    key = _line_outside(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]: the documented way to the caller's frame
    return "" if key is None else _text(key)


def _line_outside(frame: FrameType | None) -> tuple[str, int] | None:
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _text(line: tuple[str, int]) -> str:
    return f"{_relative(line[0])}:{line[1]}"


def _relative(path: str) -> str:
    """Return `path` relative to the working directory, or its last part if it is elsewhere, for privacy."""
    inside = os.path.abspath(path).startswith(os.getcwd() + os.sep)
    return os.path.relpath(path).replace(os.sep, "/") if inside else os.path.basename(path)

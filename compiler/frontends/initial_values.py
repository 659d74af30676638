"""Initial values that a program brings: kept while it is built, in memory or unread, and written beside it."""

from __future__ import annotations

from typing import Any

from compiler.build.program import Program
from compiler.train.initialisers import FromFile, from_file


class InitialValues:
    """Arrays that become the initial values of states, in one file beside the program."""

    def __init__(self, program: Program, path: str) -> None:
        self._program, self._path = program, path

    def add(self, name: str, array: Any) -> FromFile:
        """Keep an array, which may be `Unread`, under the name of its state."""
        self._program.arrays.setdefault(self._path, {})[name] = array
        return from_file(self._path, name)

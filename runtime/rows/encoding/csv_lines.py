"""The lines of a CSV file, read in blocks that the memory limit is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO, StringIO, TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Final

from runtime.memory.limit import MemoryLimit
from runtime.rows.encoding.csv_dialect import SAMPLE_CHARACTERS

VALUE_BYTES: Final = 64
"""Upper bound on the bytes that a value takes while a table is read and encoded, without its text."""

TEXT_BYTES: Final = 64
"""Bytes of a Python string without its characters; Python shares strings of one character."""

CHARACTER_BYTES: Final = 4
"""Upper bound on the bytes of a character."""

BLOCK_CHARACTERS: Final = 1 << 18
"""Characters that are read before the memory limit is asked."""


class Lines:
    """Lines of a text in UTF-8 that end as CSV says: by LF, CR or both, and by none of the other ends of Python.

    Whole blocks of lines are counted, not single lines: counting each line takes longer than parsing it.
    """

    def __init__(self, path: Path, raw: bytes, memory: MemoryLimit) -> None:
        self._stream = TextIOWrapper(BytesIO(raw), encoding="utf-8-sig", newline="")
        self._what = f"the rows of {path}"
        self._memory = memory
        self._nbytes = len(raw)
        self._characters = 0  # of all blocks so far
        self._parsed = 0  # values of all records that are parsed
        self._unparsed = 0  # characters since the last record that is parsed

    def sample(self) -> str:
        """Return the characters at the beginning of the file."""
        start = self._stream.read(SAMPLE_CHARACTERS)
        self._stream.seek(0)
        return start

    def counted(self, separator: str, values: Callable[[], int]) -> Iterator[str]:
        """Return an iterator over the lines, which asks the memory limit for each block before its first line.

        Args:
            separator: one character, which separates the values of a line.
            values: returns the number of values in the records that are parsed so far.

        Raises ResourceLimit if the values of a block, as Python strings, do not fit beside those before.
        """
        blocks = self._blocks(separator, values)
        return chain.from_iterable(StringIO(block, newline="") for block in blocks)

    def _blocks(self, separator: str, values: Callable[[], int]) -> Iterator[str]:
        """Yield blocks of whole lines."""
        for block in self._whole_lines():
            if values() > self._parsed:
                self._parsed, self._unparsed = values(), 0
            ends = block.count("\n") + block.count("\r") - block.count("\r\n")
            self._characters += len(block)
            self._require(block.count(separator) + ends + 1, self._unparsed)
            self._unparsed += len(block)
            yield block

    def _whole_lines(self) -> Iterator[str]:
        """Yield blocks that end where a line does, and ask the memory limit before a longer line is joined."""
        pieces: list[str] = []
        pending = 0
        while piece := self._stream.read(BLOCK_CHARACTERS):
            end = 1 + max(piece.rfind("\n"), piece.rfind("\r", 0, len(piece) - 1))  # LF may follow a CR at the end
            if end:
                yield "".join([*pieces, piece[:end]])
                pieces, pending = [], 0
            pieces.append(piece[end:])
            pending += len(piece) - end
            if pending >= BLOCK_CHARACTERS:
                self._require(0, self._unparsed + pending)
        if pending:
            yield "".join(pieces)

    def _require(self, found: int, unparsed: int) -> None:
        """Raise ResourceLimit unless `found` values fit beside those before, and a record of `unparsed` characters."""
        values = self._parsed + found
        longer = min(values, self._characters // 2)  # values of at least two characters
        needed = self._nbytes + VALUE_BYTES * values + TEXT_BYTES * longer
        held = self._characters + 4 * unparsed  # the parser holds a record several times
        self._memory.require(needed + CHARACTER_BYTES * held, self._what)

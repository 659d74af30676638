"""An entry as a file: a first line, a checksum of all that follows, a label in JSON, and contents.

There are two kinds. One holds object files, with the names of their functions. The other holds a step without its
object files, and names the entry that holds them: steps for different numbers of threads share it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from itertools import accumulate
from typing import Any, Final, NamedTuple, cast

from runtime.codegen.machine import INSTRUCTION_SETS

MAGIC: Final = b"prograd compiled code 3\n"
CHECKSUM_BYTES: Final = 32
LENGTH_BYTES: Final = 8


class Label(NamedTuple):
    """The description of an entry.

    Attributes:
        key: hash of everything that the contents depend on.
        program: name of the program for which it was compiled; empty for code that all programs need.
        instruction_set: name of the instruction set.
        functions: names of the functions of each group; empty for a step.
        part_bytes: length of every part of the contents, in order.
        kernels: for a step the key of the entry that holds its object files; else empty.
    """

    key: str
    program: str
    instruction_set: str
    functions: list[list[str]]
    part_bytes: list[int]
    kernels: str = ""


class Entry(NamedTuple):
    """Contents and their label."""

    label: Label
    contents: bytes

    def parts(self) -> list[bytes]:
        """Return the object files, or the only part of a step."""
        ends = list(accumulate(self.label.part_bytes))
        return [self.contents[stop - size : stop] for stop, size in zip(ends, self.label.part_bytes, strict=True)]


def to_bytes(entry: Entry) -> bytes:
    """Return the content of a file."""
    label = json.dumps(entry.label._asdict()).encode()
    rest = b"".join((len(label).to_bytes(LENGTH_BYTES, "little"), label, entry.contents))
    return b"".join((MAGIC, sha256(rest).digest(), rest))


def from_bytes(content: bytes) -> Entry | None:
    """Return the entry in the content of a file; None if it is damaged or no such file."""
    start = len(MAGIC) + CHECKSUM_BYTES
    rest = content[start:]
    if not content.startswith(MAGIC) or content[len(MAGIC) : start] != sha256(rest).digest():
        return None
    at = LENGTH_BYTES + int.from_bytes(rest[:LENGTH_BYTES], "little")
    try:
        label = Label(**json.loads(rest[LENGTH_BYTES:at]))
    except (ValueError, TypeError, RecursionError):  # whole, but written by another program
        return None
    return Entry(label, rest[at:]) if _is_label(label, len(rest) - at) else None


def _is_label(label: Label, nbytes: int) -> bool:
    """Return True if the fields have their types, and the lengths of the parts are those of `nbytes` in all."""
    return (
        all(isinstance(text, str) for text in cast("list[object]", [*label[:3], label.kernels]))
        and label.instruction_set in INSTRUCTION_SETS
        and _is_list(label.functions, lambda names: _is_list(names, lambda name: isinstance(name, str)))
        and _is_list(label.part_bytes, lambda size: type(size) is int and size >= 0)
        and sum(label.part_bytes) == nbytes
        and (not label.kernels or (label.functions, len(label.part_bytes)) == ([], 1))
    )


def _is_list(value: object, is_element: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(is_element, cast("list[Any]", value)))

"""An entry as a file: a first line, a checksum of all that follows, what the code is for as JSON, the object."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from itertools import accumulate
from typing import Any, Final, NamedTuple, cast

from runtime.codegen.machine import INSTRUCTION_SETS

MAGIC: Final = b"prograd compiled code 2\n"
CHECKSUM_BYTES: Final = 32
LENGTH_BYTES: Final = 8


class Label(NamedTuple):
    """What an entry is for.

    Attributes:
        key: of everything that the code depends on.
        program: the name of the program for which it was compiled; empty for what all programs need.
        instruction_set: by name.
        functions: their names, for each task and stage.
        object_bytes: the lengths of the objects, in their order.
    """

    key: str
    program: str
    instruction_set: str
    functions: list[list[str]]
    object_bytes: list[int]


class Entry(NamedTuple):
    """Compiled code and its label."""

    label: Label
    objects: bytes

    def parts(self) -> list[bytes]:
        """Return the objects one by one."""
        ends = list(accumulate(self.label.object_bytes))
        return [self.objects[stop - size : stop] for stop, size in zip(ends, self.label.object_bytes, strict=True)]


def to_bytes(entry: Entry) -> bytes:
    """The content of a file."""
    label = json.dumps(entry.label._asdict()).encode()
    rest = b"".join((len(label).to_bytes(LENGTH_BYTES, "little"), label, entry.objects))
    return b"".join((MAGIC, sha256(rest).digest(), rest))


def from_bytes(content: bytes) -> Entry | None:
    """The entry in the content of a file; None for what is not whole, or no such file."""
    start = len(MAGIC) + CHECKSUM_BYTES
    rest = content[start:]
    if not content.startswith(MAGIC) or content[len(MAGIC) : start] != sha256(rest).digest():
        return None
    at = LENGTH_BYTES + int.from_bytes(rest[:LENGTH_BYTES], "little")
    try:
        label = Label(**json.loads(rest[LENGTH_BYTES:at]))
    except (ValueError, TypeError, RecursionError):  # whole, but written by something else
        return None
    return Entry(label, rest[at:]) if _is_label(label, len(rest) - at) else None


def _is_label(label: Label, nbytes: int) -> bool:
    """Return True if the fields have their types, and the lengths of the objects are those of `nbytes` in all."""
    return (
        all(isinstance(text, str) for text in cast("list[object]", [*label[:3]]))
        and label.instruction_set in INSTRUCTION_SETS
        and _is_list(label.functions, lambda names: _is_list(names, lambda name: isinstance(name, str)))
        and _is_list(label.object_bytes, lambda size: type(size) is int and size >= 0)
        and sum(label.object_bytes) == nbytes
    )


def _is_list(value: object, is_element: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(is_element, cast("list[Any]", value)))

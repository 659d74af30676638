"""An entry as a file: a first line, a checksum of all that follows, what the code is for as JSON, the object."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any, Final, NamedTuple

MAGIC: Final = b"prograd compiled code 1\n"
CHECKSUM_BYTES: Final = 32
LENGTH_BYTES: Final = 8


class Label(NamedTuple):
    """What an entry is for.

    Attributes:
        key: of everything that the code depends on.
        program: the name of the program for which it was compiled; empty for what all programs need.
        instruction_set: by name.
        functions: their names, for each task and stage.
    """

    key: str
    program: str
    instruction_set: str
    functions: list[list[str]]


class Entry(NamedTuple):
    """Compiled code and its label."""

    label: Label
    objects: bytes


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
        label: Any = json.loads(rest[LENGTH_BYTES:at])
        return Entry(Label(**label), rest[at:])
    except (ValueError, TypeError):  # whole, but written by something else
        return None

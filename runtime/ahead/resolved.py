"""Object files whose relocations are applied already: a compiler leaves one of 24 bytes for every constant in memory.

Code and its constants become one section, so distances between them are known before a linker runs.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from runtime.codegen.elf import HEADER, SYMBOL, UnknownObject, read_object
from runtime.engines.native.objects.image import Image, image_of

ALIGNMENT: Final = 64
"""Alignment of the section, and of the constants in it: a cache line."""

SECTION: Final = struct.Struct("<IIQQQQIIQQ")
SYMBOL_ROW: Final = struct.Struct("<IBBHQQ")
NAMES: Final = (".text", ".symtab", ".strtab", ".shstrtab", ".note.GNU-stack")
PROGRAM_BITS, SYMBOLS, STRINGS = 1, 2, 3
"""Kinds of sections."""

ALLOCATED_AND_EXECUTED: Final = 6
GLOBAL_FUNCTION, HIDDEN = 0x12, 2
"""Kind and visibility of a symbol."""


def image(content: bytes) -> Image | None:
    """Return the code of an object file for x86-64, and the constants behind it, without relocations.

    Returns None for other machines, and if it needs a function of another file.
    """
    try:
        object = read_object(content)
        return image_of(object, ALIGNMENT) if object.machine == "x86_64" else None
    except UnknownObject:
        return None


def object_of(images: Sequence[Image]) -> bytes:
    """Return an object file for x86-64 with these images in one section."""
    code, symbols, strings = bytearray(), [SYMBOL_ROW.pack(0, 0, 0, 0, 0, 0)], bytearray(1)
    for each in images:
        for name, at in each.addresses.items():
            symbols.append(SYMBOL_ROW.pack(len(strings), GLOBAL_FUNCTION, HIDDEN, 1, len(code) + at, 0))
            strings += name.encode() + b"\0"
        code += each.content
    return _file(bytes(code), b"".join(symbols), bytes(strings))


def _file(code: bytes, symbols: bytes, strings: bytes) -> bytes:
    """Return an object of these sections: the symbols, all global but the first, name functions of the code."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in NAMES)
    rows = (
        (PROGRAM_BITS, ALLOCATED_AND_EXECUTED, code, 0, 0, ALIGNMENT, 0),
        (SYMBOLS, 0, symbols, 3, 1, 8, SYMBOL.itemsize),
        (STRINGS, 0, strings, 0, 0, 1, 0),
        (STRINGS, 0, names, 0, 0, 1, 0),
        (PROGRAM_BITS, 0, b"", 0, 0, 1, 0),
    )
    body, table = bytearray(HEADER.size), [bytes(SECTION.size)]
    for name, (kind, flags, content, link, info, alignment, entry) in zip(NAMES, rows, strict=True):
        body += bytes(-len(body) % alignment)
        at = names.index(name.encode() + b"\0")
        table.append(SECTION.pack(at, kind, flags, 0, len(body), len(content), link, info, alignment, entry))
        body += content
    body += bytes(-len(body) % 8)
    identity = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    body[: HEADER.size] = HEADER.pack(
        identity,
        1,
        62,
        1,
        0,
        0,
        len(body),
        0,
        HEADER.size,
        0,
        0,
        SECTION.size,
        len(table),
        1 + NAMES.index(".shstrtab"),
    )
    return bytes(body) + b"".join(table)

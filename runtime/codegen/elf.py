"""Relocatable files of the format ELF, of 64 bits, for x86-64 and aarch64: sections, symbols, relocations.

System V Application Binary Interface, chapters 4 and 5. Every offset is checked before it is used.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

import numpy as np

from runtime.dtypes import Array

HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION: Final = np.dtype(
    [
        ("name", "<u4"), ("kind", "<u4"), ("flags", "<u8"), ("address", "<u8"), ("offset", "<u8"), ("size", "<u8"),
        ("link", "<u4"), ("info", "<u4"), ("alignment", "<u8"), ("entry_size", "<u8"),
    ]
)  # fmt: skip
SYMBOL: Final = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
RELOCATION: Final = np.dtype([("offset", "<u8"), ("kind", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])

IDENTITY: Final = b"\x7fELF\x02\x01\x01"
"""64 bits, the least significant byte first, version 1."""

RELOCATABLE: Final = 1
MACHINES: Final = {62: "x86_64", 183: "aarch64"}
SYMBOLS, RELOCATIONS, NO_BITS = 2, 4, 8
"""Kinds of sections."""

WRITTEN, LOADED, EXECUTED = 1, 2, 4
"""Flags of sections."""

GLOBAL: Final = 1
"""Binding of a symbol that other files may use."""


class UnknownObject(Exception):
    """An object with contents that this reader does not know."""


class Section(NamedTuple):
    """A part of an object that is loaded into memory.

    Attributes:
        number: number of the section.
        executed: True for code, False for read-only data.
        alignment: alignment of its first byte, in bytes.
        content: its bytes.
    """

    number: int
    executed: bool
    alignment: int
    content: bytes


class Object(NamedTuple):
    """The contents of a relocatable file.

    Attributes:
        machine: architecture, as triples name it.
        sections: the loaded sections.
        symbols: array of type SYMBOL, in the order in which relocations number them.
        names: numbers of the symbols that other files may use.
        relocations: arrays of type RELOCATION, by the number of the section that they change.
    """

    machine: str
    sections: list[Section]
    symbols: Array
    names: dict[str, int]
    relocations: dict[int, Array]


def read_object(content: bytes) -> Object:
    """Return the object of these bytes; raise UnknownObject for unknown contents and for other files."""
    machine, headers = _headers(content)
    symbols, names = _symbols(content, headers)
    return Object(machine, _sections(content, headers), symbols, names, _relocations(content, headers))


def _headers(content: bytes) -> tuple[str, list[Any]]:
    if len(content) < HEADER.size or not content.startswith(IDENTITY):
        raise UnknownObject("this is no object of the format ELF, of 64 bits")
    _, kind, machine, _, _, _, at, _, _, _, _, size, count, _ = HEADER.unpack_from(content)
    if kind != RELOCATABLE or machine not in MACHINES or size != SECTION.itemsize:
        raise UnknownObject(f"there is nothing here for ELF of kind {kind} for machine {machine}")
    return MACHINES[machine], list(_table(content, at, count * size, SECTION))


def _sections(content: bytes, headers: list[Any]) -> list[Section]:
    sections: list[Section] = []
    left = len(content)
    for number, header in enumerate(headers):
        flags, size, alignment = int(header["flags"]), int(header["size"]), max(int(header["alignment"]), 1)
        if not flags & LOADED or not size:
            continue
        if flags & WRITTEN or header["kind"] == NO_BITS:
            raise UnknownObject("the object has memory that it writes")
        if alignment > MOST_ALIGNED or alignment & (alignment - 1):
            raise UnknownObject(f"a section is aligned to {alignment} bytes")
        left -= size
        if left < 0:
            raise UnknownObject("the sections of the object overlap")
        sections.append(Section(number, bool(flags & EXECUTED), alignment, _part(content, int(header["offset"]), size)))
    return sections


MOST_ALIGNED: Final = 4096


def _symbols(content: bytes, headers: list[Any]) -> tuple[Array, dict[str, int]]:
    table = next((header for header in headers if header["kind"] == SYMBOLS), None)
    if table is None or table["link"] >= len(headers):
        raise UnknownObject("the object has no table of symbols")
    symbols = _table(content, int(table["offset"]), int(table["size"]), SYMBOL)
    strings = headers[table["link"]]
    text = _part(content, int(strings["offset"]), int(strings["size"]))
    names: dict[str, int] = {}
    for number in np.flatnonzero(symbols["info"] >> 4 == GLOBAL).tolist():
        start = int(symbols["name"][number])
        names[text[start : text.find(b"\0", start)].decode("ascii", "replace")] = number
    return symbols, names


def _relocations(content: bytes, headers: list[Any]) -> dict[int, Array]:
    return {
        int(header["info"]): _table(content, int(header["offset"]), int(header["size"]), RELOCATION)
        for header in headers
        if header["kind"] == RELOCATIONS
    }


def _table(content: bytes, at: int, size: int, row: np.dtype[Any]) -> Array:
    if size % row.itemsize:
        raise UnknownObject(f"{size} bytes are no table of rows of {row.itemsize}")
    return np.frombuffer(_part(content, at, size), row)


def _part(content: bytes, at: int, size: int) -> bytes:
    if at + size > len(content):
        raise UnknownObject(f"the object ends before {at + size} bytes")
    return content[at : at + size]

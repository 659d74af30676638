"""The sections of an object in the layout of memory, with relocations applied.

Code comes first, then read-only data from the next multiple of 64 KiB on, which is a page on every system. The image is
the same at every address that begins a page.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from runtime.codegen.elf import Object, Section, UnknownObject
from runtime.dtypes import Array
from runtime.engines.native.objects.relocations import KINDS

PAGE: Final = 1 << 16
WORD: Final = 4


class Image(NamedTuple):
    """Code and the data that it reads.

    Attributes:
        content: all bytes.
        code_bytes: number of leading bytes that are executed.
        addresses: offsets of functions in the image by name.
    """

    content: bytes
    code_bytes: int
    addresses: dict[str, int]


def image_of(object: Object, page: int = PAGE) -> Image:
    """Return the image of an object, whose data begin at a multiple of `page` bytes.

    Raise UnknownObject for an unknown relocation, and for one that leads out of the image.
    """
    starts, code_bytes, size = _places(object, page)
    image = np.zeros(size, np.uint8)
    for section in object.sections:
        start = starts[section.number]
        image[start : start + len(section.content)] = np.frombuffer(section.content, np.uint8)
    symbols = _symbols(object, starts)
    for section in object.sections:
        if section.number in object.relocations:
            start = starts[section.number]
            _relocate(object, image[start : start + len(section.content)], section.number, start, symbols)
    addresses = {name: int(symbols[number]) for name, number in object.names.items() if symbols[number] >= 0}
    if any(at >= code_bytes for at in addresses.values()):
        raise UnknownObject("a function is outside of the code")
    return Image(image.tobytes(), code_bytes, addresses)


def _places(object: Object, page: int) -> tuple[dict[int, int], int, int]:
    """Return the offset of each section by its number, the end of code, and the end of the image."""
    code, code_bytes = _one_after_the_other([section for section in object.sections if section.executed], 0, page)
    data, end = _one_after_the_other([section for section in object.sections if not section.executed], code_bytes, page)
    return code | data, code_bytes, max(end, page)


def _one_after_the_other(sections: list[Section], start: int, page: int) -> tuple[dict[int, int], int]:
    starts: dict[int, int] = {}
    for section in sections:
        starts[section.number] = _up(start, section.alignment)
        start = starts[section.number] + len(section.content)
    return starts, _up(start, page)


def _up(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def _symbols(object: Object, starts: dict[int, int]) -> Array:
    """Return the offset of each symbol; -1 if it is not in the image."""
    base = np.full(1 << 16, -1, np.int64)
    base[list(starts)] = list(starts.values())
    found = base[object.symbols["section"]]
    return np.where(found < 0, -1, found + object.symbols["value"].astype(np.int64))


def _relocate(object: Object, section: Array, number: int, start: int, symbols: Array) -> None:
    rows = object.relocations[number]
    positions = rows["offset"].astype(np.int64)
    if (rows["symbol"] >= len(symbols)).any() or ((positions < 0) | (positions > len(section) - WORD)).any():
        raise UnknownObject("a relocation is outside of what it changes")
    targets = symbols[rows["symbol"]]
    if (targets < 0).any():
        raise UnknownObject("a relocation leads out of the object")
    for kind in set(rows["kind"].tolist()):  # numpy.unique would import numpy.ma
        if (object.machine, kind) not in KINDS:
            raise UnknownObject(f"relocations of kind {kind} are not known for {object.machine}")
        some = rows["kind"] == kind
        at = positions[some]
        bytes_of = at[:, None] + np.arange(WORD)
        words = section[bytes_of].view("<u4")[:, 0].astype(np.int64)
        words = KINDS[object.machine, kind](words, targets[some] + rows["addend"][some], at + start)
        section[bytes_of] = words.astype("<u4")[:, None].view(np.uint8)

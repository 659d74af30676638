"""The computation of a relocated word of four bytes, for each kind that position-independent code has.

System V ABI, AMD64 supplement, table 4.9; ELF for the Arm 64-bit architecture, section 5.7. All of them are distances,
or offsets within a page of 4 KiB: they are the same at every address of the image.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from runtime.codegen.elf import UnknownObject
from runtime.dtypes import Array

Kind = Callable[[Array, Array, Array], Array]
"""From the present words, their targets and their addresses, to the relocated words."""


def _distance(words: Array, to: Array, at: Array) -> Array:
    """Return the distance in bytes, as a word."""
    return _within(to - at, 32)


def _branch(words: Array, to: Array, at: Array) -> Array:
    """Return the word with the distance in instructions, in the low 26 bits."""
    return _set(words, _within(_scaled(to - at, 2), 26), 0, 26)


def _page(words: Array, to: Array, at: Array) -> Array:
    """Return the word with the distance in pages: two bits from bit 29, nineteen from bit 5."""
    pages = _within((to >> 12) - (at >> 12), 21)
    return _set(_set(words, pages, 29, 2), pages >> 2, 5, 19)


def _in_page(shift: int, words: Array, to: Array, at: Array) -> Array:
    """Return the word with the offset in a page, in units of the loaded type, in twelve bits from bit 10."""
    return _set(words, _scaled(to & 4095, shift), 10, 12)


KINDS: Final[dict[tuple[str, int], Kind]] = {
    ("x86_64", 2): _distance,  # PC32
    ("x86_64", 4): _distance,  # PLT32: the called function is in the object itself
    ("aarch64", 261): _distance,  # PREL32
    ("aarch64", 275): _page,  # ADR_PREL_PG_HI21
    ("aarch64", 277): partial(_in_page, 0),  # ADD_ABS_LO12_NC
    ("aarch64", 278): partial(_in_page, 0),  # LDST8_ABS_LO12_NC
    ("aarch64", 282): _branch,  # JUMP26
    ("aarch64", 283): _branch,  # CALL26
    ("aarch64", 284): partial(_in_page, 1),  # LDST16_ABS_LO12_NC
    ("aarch64", 285): partial(_in_page, 2),  # LDST32_ABS_LO12_NC
    ("aarch64", 286): partial(_in_page, 3),  # LDST64_ABS_LO12_NC
    ("aarch64", 299): partial(_in_page, 4),  # LDST128_ABS_LO12_NC
}
"""Functions by architecture and number of the kind."""


def _within(values: Array, bits: int) -> Array:
    if ((values < -(1 << (bits - 1))) | (values >= 1 << (bits - 1))).any():
        raise UnknownObject(f"a distance does not fit into {bits} bits")
    return values


def _scaled(values: Array, shift: int) -> Array:
    if (values & ((1 << shift) - 1)).any():
        raise UnknownObject(f"a place is not at a multiple of {1 << shift} bytes")
    return values >> shift


def _set(words: Array, values: Array, low: int, bits: int) -> Array:
    mask = (1 << bits) - 1
    return (words & np.int64(~(mask << low))) | ((values & mask) << low)

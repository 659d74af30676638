"""The type of a value: kind of number, bits and lanes; numbers as LLVM spells them."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

Kind = Literal["float", "signed", "unsigned", "mask", "pointer", "float16", "bfloat16"]


@dataclass(frozen=True)
class Type:
    """The type of a value.

    Attributes:
        kind: interpretation of the bits; a comparison returns a mask. 16-bit floats are bits until they are widened.
        bits: number of bits of one element.
        lanes: number of lanes of a vector; 0 for a scalar.
        element: type of the elements that a pointer points at.
        is_widened: True for bfloat16 in memory that is read as float32.
    """

    kind: Kind
    bits: int
    lanes: int = 0
    element: Type | None = None
    is_widened: bool = False

    def of(self, lanes: int) -> Type:
        """Return the type with this number of lanes; 0 for a scalar."""
        return self if lanes == self.lanes else replace(self, lanes=lanes)

    def bits_of(self, kind: Kind) -> Type:
        """Return the type of the same width and lanes, with bits of another kind."""
        return replace(self, kind=kind)

    @property
    def is_float(self) -> bool:
        """True for floating-point numbers."""
        return self.kind == "float"

    @cached_property
    def scalar(self) -> str:
        """One element, as LLVM spells it."""
        if self.kind == "pointer":
            return "ptr"
        if self.kind == "float":
            return {16: "half", 32: "float", 64: "double"}[self.bits]
        return f"i{self.bits}"

    @cached_property
    def text(self) -> str:
        """The type, as LLVM spells it."""
        return f"<{self.lanes} x {self.scalar}>" if self.lanes else self.scalar

    @cached_property
    def suffix(self) -> str:
        """The type, as names of LLVM's intrinsics spell it."""
        element = f"f{self.bits}" if self.is_float else f"i{self.bits}"
        return f"v{self.lanes}{element}" if self.lanes else element

    def __str__(self) -> str:
        return self.text


MASK: Final = Type("mask", 1)
BOOL: Final = Type("unsigned", 8)
"""A bool in memory: a byte, 0 or 1."""
UINT8: Final = Type("unsigned", 8)
INT32: Final = Type("signed", 32)
UINT32: Final = Type("unsigned", 32)
INT64: Final = Type("signed", 64)
UINT64: Final = Type("unsigned", 64)
FLOAT16: Final = Type("float16", 16)
BFLOAT16: Final = Type("bfloat16", 16)
WIDENED_BFLOAT16: Final = Type("bfloat16", 16, is_widened=True)
"""Elements of bfloat16 in memory that every load widens to float32, for kernels that compute with float32."""
FLOAT32: Final = Type("float", 32)
FLOAT64: Final = Type("float", 64)

DTYPES: Final = {
    "bool": BOOL,
    "uint8": UINT8,
    "int32": INT32,
    "int64": INT64,
    "float16": FLOAT16,
    "bfloat16": BFLOAT16,
    "float32": FLOAT32,
    "float64": FLOAT64,
}
"""The type of elements in memory by dtype."""


def pointer(element: Type) -> Type:
    """Return the type of an address of such elements."""
    return Type("pointer", 64, element=element)


def number(type: Type, value: float) -> str:
    """Return a number of this type, in every lane, as LLVM spells it."""
    one = _scalar_number(type, value)
    return f"splat ({type.scalar} {one})" if type.lanes else one


def _scalar_number(type: Type, value: float) -> str:
    if type.kind == "mask":
        return "true" if value else "false"
    if type.kind != "float":
        assert value == int(value), f"{value} is not a whole number"
        return str(int(value))
    if type.bits == 32:
        value = _nearest_single(value)
    return f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"


def _nearest_single(value: float) -> float:
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")

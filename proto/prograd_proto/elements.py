"""Elements as little-endian bytes, without NumPy, for constants and the text form."""

import math
import struct
from collections.abc import Sequence
from typing import Final

from prograd_proto.dtypes import REALS
from prograd_proto.errors import OpError

CODES: Final = {
    "float32": "f",
    "float64": "d",
    "int32": "i",
    "int64": "q",
    "bool": "?",
    "uint8": "B",
    "float16": "e",
}
"""Format characters of `struct` by dtype; it has none for bfloat16."""

_DIGITS: Final = 8
"""Binary digits of a bfloat16, including the leading one."""

_LEAST: Final = -133
"""Exponent of the smallest positive bfloat16."""


def pack(dtype: str, numbers: Sequence[float]) -> bytes:
    """Return the numbers as bytes of elements; floats are rounded to nearest, ties to even.

    Raises struct.error or OverflowError for a number beyond the dtype's largest.
    """
    if dtype == "bfloat16":
        return b"".join(map(_bfloat16, numbers))
    return struct.pack(f"<{len(numbers)}{CODES[dtype]}", *numbers)


def unpack(dtype: str, data: bytes) -> tuple[float, ...]:
    """Return the elements as numbers; `data` has a whole number of elements."""
    if dtype == "bfloat16":
        data = b"".join(b"\0\0" + data[i : i + 2] for i in range(0, len(data), 2))
    code = CODES.get(dtype, "f")
    return struct.unpack(f"<{len(data) // struct.calcsize('<' + code)}{code}", data)


def _bfloat16(number: float) -> bytes:
    """Return the upper half of the nearest float32 whose lower half is 0, which is a bfloat16 exactly."""
    if not math.isfinite(number):
        return struct.pack("<f", number)[2:]
    unit = max(math.frexp(number)[1] - _DIGITS, _LEAST)
    rounded = math.ldexp(round(math.ldexp(number, -unit)), unit)
    return struct.pack("<f", math.copysign(rounded, number))[2:]


def scalar_bytes(dtype: str, number: float) -> bytes:
    """Return one element as little-endian bytes; raise OpError if `dtype` cannot hold the number."""
    if dtype not in REALS and number % 1 != 0:
        raise OpError(f"{number} is not a whole number, as {dtype} needs")
    try:
        return pack(dtype, [number if dtype in REALS else int(number)])
    except (struct.error, OverflowError):
        raise OpError(f"{number} does not fit {dtype}") from None

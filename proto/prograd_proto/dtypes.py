"""Element types: their names, numbers in the file and sizes."""

from typing import Final, Literal, overload

import prograd_proto.program_pb2 as pb

DTypeName = Literal["float32", "float64", "int32", "int64", "bool", "uint8", "float16", "bfloat16"]

ITEM_BYTES: Final = {
    "float32": 4,
    "float64": 8,
    "int32": 4,
    "int64": 8,
    "bool": 1,
    "uint8": 1,
    "float16": 2,
    "bfloat16": 2,
}
"""Bytes of one element by dtype name; the keys are all dtypes."""

NUMBERS: Final[dict[str, pb.DType]] = {name: getattr(pb.DType, f"D_TYPE_{name.upper()}") for name in ITEM_BYTES}
NAMES: Final[dict[int, str]] = {number: name for name, number in NUMBERS.items()}

FLOATS: Final = frozenset({"float32", "float64"})
"""Float dtypes that are computed with."""

HALVES: Final = frozenset({"float16", "bfloat16"})
"""Float dtypes that are stored and moved, and cast for computation."""

SAME_BITS: Final = {"float32": "int32", "int32": "float32", "float64": "int64", "int64": "float64", "bool": "uint8"}
"""For each dtype the one of the other kind with as many bits; not every uint8 is a bool."""

REALS: Final = FLOATS | HALVES
"""All float dtypes: those with fractions and gradients."""

INTEGERS: Final = frozenset({"int32", "int64", "uint8"})

INTEGER_RANGES: Final = {"int32": (-(1 << 31), 1 << 31), "int64": (-(1 << 63), 1 << 63), "uint8": (0, 1 << 8)}
"""The smallest integer of a dtype, and the one after the largest."""


def holds(dtype: str, number: float) -> bool:
    """Return True if an integer dtype can hold the number without its fraction; other dtypes hold any number."""
    least, end = INTEGER_RANGES.get(dtype, (0, 0))
    return dtype not in INTEGER_RANGES or least - 1 < number < end


@overload
def wide(dtype: DTypeName) -> DTypeName: ...
@overload
def wide(dtype: str) -> str: ...
def wide(dtype: str) -> str:
    """Return the dtype that elements of this one are computed in: float32 for 16-bit floats, else the same."""
    return "float32" if dtype in HALVES else dtype

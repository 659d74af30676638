"""Element types: their names, numbers in the file and sizes."""

from typing import Final, Literal

from prograd_proto import program_pb2 as pb

DTypeName = Literal["float32", "float64", "int32", "int64", "bool", "uint8"]

ITEM_BYTES: Final = {"float32": 4, "float64": 8, "int32": 4, "int64": 8, "bool": 1, "uint8": 1}
"""Bytes of one element, by dtype name; the keys are every dtype there is."""

NUMBERS: Final[dict[str, pb.DType]] = {name: getattr(pb.DType, f"D_TYPE_{name.upper()}") for name in ITEM_BYTES}
NAMES: Final[dict[int, str]] = {number: name for name, number in NUMBERS.items()}

FLOATS: Final = frozenset({"float32", "float64"})
INTEGERS: Final = frozenset({"int32", "int64", "uint8"})

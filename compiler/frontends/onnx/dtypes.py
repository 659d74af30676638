"""Element types of ONNX by the names of NumPy."""

# pyright: basic
# onnx is imported by name and has no types here.

from __future__ import annotations

from typing import Any, Final

DTYPES: Final = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16,
}  # fmt: skip
"""Numbers of element types."""


def dtype_name(onnx: Any, number: int) -> str:
    """Return the name of an element type."""
    known = {v: k for k, v in DTYPES.items()}.get(number)
    if known is not None:
        return known
    names = {v: k for k, v in onnx.TensorProto.DataType.items()}
    return names.get(number, f"an element type of number {number}").lower()

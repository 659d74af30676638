"""Element types of ONNX by the names of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from registry import Value, ops

DTYPES: Final = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "string": 8, "bool": 9,
    "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16,
    "float8e4m3fn": 17, "float8e4m3fnuz": 18, "float8e5m2": 19, "float8e5m2fnuz": 20, "uint4": 21, "int4": 22,
    "float4e2m1": 23, "uint2": 25, "int2": 26,
}  # fmt: skip
"""Numbers of element types."""


def dtype_name(onnx: Any, number: int) -> str:
    """Return the name of an element type."""
    known = {v: k for k, v in DTYPES.items()}.get(number)
    if known is not None:
        return known
    names = {v: k for k, v in onnx.TensorProto.DataType.items()}
    return names.get(number, f"an element type of number {number}").lower()


def own_name(dtype: Any) -> str:
    """Return ONNX's name of a dtype of NumPy, which ml_dtypes writes with underscores."""
    name = dtype.name.replace("_", "")
    return "float4e2m1" if name == "float4e2m1fn" else name


NARROW: Final = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "int8": 8, "int16": 16, "uint16": 16, "uint32": 32}
"""Bits of the integers that wider ones carry."""

WRAPPING: Final = {
    "Abs", "Add", "BitShift", "BitwiseNot", "Cast", "CastLike", "CumProd", "CumSum", "Div", "Einsum", "Gemm", "MatMul",
    "Mod", "Mul", "Neg", "ReduceL1", "ReduceL2", "ReduceProd", "ReduceSum", "ReduceSumSquare", "ScatterElements",
    "ScatterND", "Sub", "Sum",
}  # fmt: skip
"""Operators whose integer results may be outside the range of their dtype, and then wrap."""


def wrapping(dtype: str) -> Callable[[Value], Value]:
    """Return a function that gives integers the value that their lowest bits have in a narrower dtype."""
    mask = (1 << NARROW[dtype]) - 1
    sign = 0 if dtype.startswith("u") else (mask + 1) // 2

    def wrapped(v: Value) -> Value:
        low = ops.bitwise_and(v, mask)
        return ops.bitwise_xor(low, sign) - sign if sign else low

    return wrapped

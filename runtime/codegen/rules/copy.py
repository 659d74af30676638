"""Casts and broadcasts."""

from __future__ import annotations

from runtime.codegen.ir import Value
from runtime.codegen.ir.words import HALVES, convert, saturated
from runtime.codegen.kernels.registers import register_type
from runtime.codegen.rules.rule import ALL_DTYPES, pointwise


def cast(x: Value, *, dtype: str) -> Value:
    to = register_type(dtype)
    is_rounded = (x.type.is_float or x.type.kind in HALVES) and to.kind in ("signed", "unsigned")
    return saturated(x, to) if is_rounded else convert(x, to)


def broadcast_to(x: Value, **_: object) -> Value:
    return x  # the strides of the operand give the result


pointwise("cast", cast, ALL_DTYPES)
pointwise("broadcast_to", broadcast_to, ALL_DTYPES)

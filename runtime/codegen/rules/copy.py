"""Casts and broadcasts."""

from __future__ import annotations

from prograd_proto.dtypes import SAME_BITS
from runtime.codegen.ir import Value
from runtime.codegen.ir.words import HALVES, bits, convert, saturated
from runtime.codegen.kernels.registers import register_type
from runtime.codegen.rules.rule import ALL_DTYPES, of_one, pointwise


def cast(x: Value, *, dtype: str) -> Value:
    to = register_type(dtype)
    is_rounded = (x.type.is_float or x.type.kind in HALVES) and to.kind in ("signed", "unsigned")
    return saturated(x, to) if is_rounded else convert(x, to)


def broadcast_to(x: Value, **_: object) -> Value:
    return x  # the strides of the operand give the result


def bitcast(x: Value) -> Value:
    if x.type.kind == "mask":
        return convert(x, register_type("uint8"))
    kind = "int" if x.type.is_float else "float"
    return bits(x, register_type(f"{kind}{x.type.bits}"))


of_one("bitcast", bitcast, SAME_BITS)
pointwise("cast", cast, ALL_DTYPES)
pointwise("broadcast_to", broadcast_to, ALL_DTYPES)

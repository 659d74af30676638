"""Elements in registers, as expressions compute with them, and in memory.

A bool is a mask in a register and a byte in memory. A 16-bit float is 16 bits in both: only casts compute with it. Ops
that read it as a number widen it, and ops that define it round, as in the reference engine.
"""

from __future__ import annotations

import numpy as np

from runtime.codegen.ir import BOOL, DTYPES, Function, Type, Value
from runtime.codegen.ir.types import MASK
from runtime.codegen.ir.words import HALVES, convert
from runtime.conversion import converted


def in_register(x: Value, dtype: str) -> Value:
    """Return an element from memory, as an expression computes with it."""
    return x.not_equal(0) if dtype == "bool" else x


def in_memory(x: Value) -> Value:
    """Return the result of an expression, as it is stored."""
    return convert(x, BOOL) if x.type.kind == "mask" else x


def register_type(dtype: str) -> Type:
    """Return the type of elements of a dtype in registers."""
    return MASK if dtype == "bool" else DTYPES[dtype]


def constant(f: Function, dtype: str, value: float) -> Value:
    """Return a number as a scalar in a register; the nearest, if the dtype is a 16-bit float."""
    if dtype in HALVES:
        return Value(str(bits_of(value, dtype)), DTYPES[dtype], f)
    return f.constant(register_type(dtype), value)


def bits_of(value: float, dtype: str) -> int:
    """Return the bits of a number in memory."""
    if dtype == "bfloat16":
        one = converted(np.array([value]), dtype)
    else:
        one = np.zeros(1, dtype)
        with np.errstate(over="ignore"):
            one.fill(value)
    return int(one.view(f"u{one.itemsize}")[0])

"""Elements as expressions see them, and as they lie in memory.

A bool is a byte there and a mask here. A float of 16 bits is 16 bits in both: only casts compute with it, so it is
widened by what reads it as a number, and rounded by what makes it, as in the reference.
"""

from __future__ import annotations

import numpy as np

from runtime.codegen.ir import BOOL, DTYPES, Function, Type, Value
from runtime.codegen.ir.types import MASK
from runtime.codegen.ir.words import HALVES, convert
from runtime.conversion import converted


def in_register(x: Value, dtype: str) -> Value:
    """What was read, as an expression sees it."""
    return x.not_equal(0) if dtype == "bool" else x


def in_memory(x: Value) -> Value:
    """What an expression gave, as it is written."""
    return convert(x, BOOL) if x.type.kind == "mask" else x


def register_type(dtype: str) -> Type:
    """What elements of a dtype are to an expression."""
    return MASK if dtype == "bool" else DTYPES[dtype]


def constant(f: Function, dtype: str, value: float) -> Value:
    """A number as an expression sees it, alone; as a 16-bit float the nearest."""
    if dtype in HALVES:
        return Value(str(bits_of(value, dtype)), DTYPES[dtype], f)
    return f.constant(register_type(dtype), value)


def bits_of(value: float, dtype: str) -> int:
    """The number as it lies in memory."""
    if dtype == "bfloat16":
        one = converted(np.array([value]), dtype)
    else:
        one = np.zeros(1, dtype)
        with np.errstate(over="ignore"):
            one.fill(value)
    return int(one.view(f"u{one.itemsize}")[0])

"""Elements as expressions see them, and as they lie in memory: a bool is a byte there and a mask here."""

from __future__ import annotations

from runtime.engines.native.ir import BOOL, DTYPES, Type, Value
from runtime.engines.native.ir.types import MASK
from runtime.engines.native.ir.words import convert


def in_register(x: Value, dtype: str) -> Value:
    """What was read, as an expression sees it."""
    return x.not_equal(0) if dtype == "bool" else x


def in_memory(x: Value) -> Value:
    """What an expression gave, as it is written."""
    return convert(x, BOOL) if x.type.kind == "mask" else x


def register_type(dtype: str) -> Type:
    """What elements of a dtype are to an expression."""
    return MASK if dtype == "bool" else DTYPES[dtype]

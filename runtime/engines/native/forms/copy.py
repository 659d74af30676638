"""Casts between the dtypes that registers hold; 16-bit floats have no form yet."""

from __future__ import annotations

from runtime.engines.native.forms.form import pointwise
from runtime.engines.native.forms.registers import register_type
from runtime.engines.native.ir import Value
from runtime.engines.native.ir.types import DTYPES
from runtime.engines.native.ir.words import convert


def cast(x: Value, *, dtype: str) -> Value:
    return convert(x, register_type(dtype))


pointwise("cast", cast, set(DTYPES))

"""Exponentials, logarithms and their like."""

from __future__ import annotations

from runtime.codegen import math
from runtime.codegen.ir.words import sqrt
from runtime.codegen.rules.form import FLOATS, of_one, of_two

of_one("rsqrt", lambda x: 1 / sqrt(x), FLOATS)
of_one("reciprocal", lambda x: 1 / x, FLOATS)
of_one("log2", math.log2, FLOATS)
of_one("exp2", math.exp2, FLOATS)
of_one("log1p", math.log1p, FLOATS)
of_one("expm1", math.expm1, FLOATS)
of_one("tan", math.tan, FLOATS)
of_one("asin", math.asin, FLOATS)
of_one("acos", math.acos, FLOATS)
of_one("atan", math.atan, FLOATS)
of_two("atan2", math.atan2, FLOATS)
of_one("sinh", math.sinh, FLOATS)
of_one("cosh", math.cosh, FLOATS)
of_one("asinh", math.asinh, FLOATS)
of_one("acosh", math.acosh, FLOATS)
of_one("atanh", math.atanh, FLOATS)

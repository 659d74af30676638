"""Exponentials, logarithms and similar functions."""

from __future__ import annotations

from runtime.codegen import math
from runtime.codegen.ir.words import sqrt
from runtime.codegen.rules.rule import FLOAT_DTYPES, of_one, of_two

of_one("rsqrt", lambda x: 1 / sqrt(x), FLOAT_DTYPES)
of_one("reciprocal", lambda x: 1 / x, FLOAT_DTYPES)
of_one("log2", math.log2, FLOAT_DTYPES)
of_one("exp2", math.exp2, FLOAT_DTYPES)
of_one("log1p", math.log1p, FLOAT_DTYPES)
of_one("expm1", math.expm1, FLOAT_DTYPES)
of_one("tan", math.tan, FLOAT_DTYPES)
of_one("asin", math.asin, FLOAT_DTYPES)
of_one("acos", math.acos, FLOAT_DTYPES)
of_one("atan", math.atan, FLOAT_DTYPES)
of_two("atan2", math.atan2, FLOAT_DTYPES)
of_one("sinh", math.sinh, FLOAT_DTYPES)
of_one("cosh", math.cosh, FLOAT_DTYPES)
of_one("asinh", math.asinh, FLOAT_DTYPES)
of_one("acosh", math.acosh, FLOAT_DTYPES)
of_one("atanh", math.atanh, FLOAT_DTYPES)

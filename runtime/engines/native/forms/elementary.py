"""Exponentials, logarithms and their like."""

from __future__ import annotations

from runtime.engines.native import math
from runtime.engines.native.forms.form import FLOATS, of_one
from runtime.engines.native.ir.words import sqrt

of_one("rsqrt", lambda x: 1 / sqrt(x), FLOATS)
of_one("reciprocal", lambda x: 1 / x, FLOATS)
of_one("log2", math.log2, FLOATS)
of_one("exp2", math.exp2, FLOATS)
of_one("log1p", math.log1p, FLOATS)
of_one("expm1", math.expm1, FLOATS)
of_one("sinh", math.sinh, FLOATS)
of_one("cosh", math.cosh, FLOATS)

"""Rounding to whole numbers, and division with a remainder."""

from __future__ import annotations

from runtime.codegen import math
from runtime.codegen.rules.rule import FLOAT_DTYPES, NUMERIC_DTYPES, of_one, of_two

of_one("floor", math.floor, FLOAT_DTYPES)
of_one("ceil", math.ceil, FLOAT_DTYPES)
of_one("round", math.rint, FLOAT_DTYPES)
of_one("trunc", math.trunc, FLOAT_DTYPES)

of_two("floor_div", math.floor_divide, NUMERIC_DTYPES)
of_two("remainder", math.remainder, NUMERIC_DTYPES)
of_two("fmod", math.fmod, NUMERIC_DTYPES)

"""The error functions and the gamma functions."""

from __future__ import annotations

from runtime.codegen import math
from runtime.codegen.rules.rule import FLOAT_DTYPES, of_one, pointwise

of_one("erf", math.erf, FLOAT_DTYPES)
of_one("erfc", math.erfc, FLOAT_DTYPES)
of_one("lgamma", math.lgamma, FLOAT_DTYPES)
of_one("digamma", math.digamma, FLOAT_DTYPES)
pointwise("polygamma", math.polygamma, FLOAT_DTYPES)

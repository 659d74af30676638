"""The error function, what it leaves of 1, and the gamma functions."""

from __future__ import annotations

from runtime.codegen import math
from runtime.codegen.rules.form import FLOATS, of_one, pointwise

of_one("erf", math.erf, FLOATS)
of_one("erfc", math.erfc, FLOATS)
of_one("lgamma", math.lgamma, FLOATS)
of_one("digamma", math.digamma, FLOATS)
pointwise("polygamma", math.polygamma, FLOATS)

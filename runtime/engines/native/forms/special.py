"""The error function."""

from __future__ import annotations

from runtime.engines.native import math
from runtime.engines.native.forms.form import FLOATS, of_one

of_one("erf", math.erf, FLOATS)

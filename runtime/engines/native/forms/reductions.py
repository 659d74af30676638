"""Sums, means and extremes along axes."""

from __future__ import annotations

from runtime.engines.native.forms.form import ALL, FLOATS, FORMS, Reduction
from runtime.engines.native.ir.words import maximum, minimum

FORMS["sum"] = Reduction(0.0, lambda a, b: a + b, ALL, is_wide=True)
FORMS["mean"] = Reduction(0.0, lambda a, b: a + b, FLOATS, lambda x, count: x / float(count), is_wide=True)
FORMS["max"] = Reduction(float("-inf"), maximum, FLOATS)
FORMS["min"] = Reduction(float("inf"), minimum, FLOATS)

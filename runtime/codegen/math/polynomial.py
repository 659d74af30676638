"""Horner's rule."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.codegen.ir import Value
from runtime.codegen.ir.words import fma


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """Return the sum of c[k] * x**k, from the highest power down."""
    *lower, first = coefficients
    total = x.like(first)
    for c in reversed(lower):
        total = fma(total, x, c)
    return total

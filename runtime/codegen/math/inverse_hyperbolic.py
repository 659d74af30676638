"""asinh, acosh, atanh, by log1p of arguments that keep their digits."""

from __future__ import annotations

from math import nan
from typing import Final

from runtime.codegen.ir import Value
from runtime.codegen.ir.words import absolute, copysign, sqrt, where
from runtime.codegen.math.exponential import LN2, MANTISSA
from runtime.codegen.math.logarithm import log1p

EXTRA_EXPONENT: Final = 4
"""Powers of two beyond the digits of a number from which on 1 is lost in a sum with it."""


def asinh(x: Value) -> Value:
    """Return the inverse hyperbolic sine; at most 1.7 and 1.6 ulp."""
    size = absolute(x)
    square = size * size
    return copysign(_of(size, size + square / (sqrt(square + 1) + 1)), x)


def acosh(x: Value) -> Value:
    """Return the inverse hyperbolic cosine; at most 1.7 and 1.6 ulp; NaN below 1."""
    t = x - 1
    return where(x >= 1, _of(t, t + sqrt(t * (t + 2))), nan)


def atanh(x: Value) -> Value:
    """Return the inverse hyperbolic tangent; at most 1.7 and 1.6 ulp; NaN beyond 1."""
    size = absolute(x)
    return copysign(log1p((size + size) / (1 - size)) * 0.5, x)


def _of(size: Value, more: Value) -> Value:
    """Return log(1 + more), which is log(2 * size) for a large size."""
    is_large = size > 2.0 ** (MANTISSA[size.type.bits] + EXTRA_EXPONENT)
    return log1p(where(is_large, size, more)) + where(is_large, size.like(LN2), 0.0)

"""tanh, sigmoid, sinh, cosh, by exp and expm1; their inverses, by log1p of arguments that keep their digits."""

from __future__ import annotations

from math import nan
from typing import Final

from runtime.codegen.ir import Value
from runtime.codegen.ir.words import absolute, copysign, minimum, sqrt, where
from runtime.codegen.math.exponential import LN2, MANTISSA, exp, exp_beside_one, expm1, expm1_of_size
from runtime.codegen.math.logarithm import log1p

EXTRA_EXPONENT: Final = 4
"""Powers of two beyond the digits of a number from which on 1 is lost in a sum with it."""


def tanh(x: Value) -> Value:
    """Return the hyperbolic tangent; at most 2.6 and 2.6 ulp."""
    e = expm1_of_size(minimum(absolute(x), 20.0) * 2)
    return copysign(e / (e + 2), x)


def sigmoid(x: Value) -> Value:
    """Return 1 / (1 + exp(-x)); at most 2.0 and 2.0 ulp; 0 where exp(-x) is infinite."""
    return 1 / (1 + exp_beside_one(-x))


def sinh(x: Value) -> Value:
    """Return the hyperbolic sine; at most 3.0 and 3.0 ulp."""
    size = absolute(x)
    e = expm1(size)
    near = (e + e / (e + 1)) * 0.5
    half = exp(size * 0.5)  # its square is infinite only if the result may be
    return copysign(where(size > 20.0, half * 0.5 * half, near), x)


def cosh(x: Value) -> Value:
    """Return the hyperbolic cosine; at most 3.1 and 3.1 ulp."""
    half = exp(absolute(x) * 0.5)
    return half * 0.5 * half + 0.5 / half / half


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

"""tanh, sigmoid, sinh, cosh, by exp and expm1."""

from __future__ import annotations

from runtime.codegen.ir import Value
from runtime.codegen.ir.words import absolute, copysign, minimum, where
from runtime.codegen.math.exponential import exp, exp_beside_one, expm1, expm1_of_size


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

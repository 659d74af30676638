"""Derivatives of digamma: sums of powers of 1 / (x + k) with the tail of Euler and Maclaurin, computed in float64.

Below 0, a reflection formula with derivatives of the cotangent applies (Abramowitz and Stegun, 6.4.7, 23.2.9).
"""

from __future__ import annotations

from math import factorial, pi
from typing import Final

from runtime.codegen.ir import FLOAT64, Value
from runtime.codegen.ir.words import convert, where
from runtime.codegen.math.gamma import of_half_turns
from runtime.codegen.math.polynomial import polynomial

BERNOULLI: Final = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
"""B2, B4 and so on."""

SHIFT: Final = 10
"""Number of terms of the sum that are added one by one, besides one for each power."""


def polygamma(x: Value, *, n: int) -> Value:
    """Return the n-th derivative, n from 1 to 100, within 1e-14 (float32: 6e-8) of the larger of 1 and its size."""
    wide = convert(x, FLOAT64)
    is_below = wide < 0
    sum = _sum_of_powers(where(is_below, 1 - wide, wide), n + 1)
    y = sum * float(factorial(n) * (-1) ** (n + 1))
    sine, cosine = of_half_turns(wide)
    reflected = y * float((-1) ** n) - polynomial(cosine / sine, _of_cotangent(n))
    return convert(where(is_below, reflected, y), x.type.of(0))


def _sum_of_powers(x: Value, s: int) -> Value:
    """Return the sum of (x + k)**-s over all k from 0."""
    far = 1 / (x + float(SHIFT + s))
    y = ((polynomial(far * far, _tail(s)) * far + 0.5) * far + 1 / (s - 1)) * _power(far, s - 1)
    for k in reversed(range(SHIFT + s)):
        y = y + _power(1 / (x + float(k)), s)
    return y


def _tail(s: int) -> tuple[float, ...]:
    """Return B[2 j] / (2 j)! * s * (s + 1) ... (s + 2 j - 2) for each j."""
    found: list[float] = []
    rising = float(s)
    for j, b in enumerate(BERNOULLI, 1):
        found.append(b / factorial(2 * j) * rising)
        rising *= (s + 2 * j - 1) * (s + 2 * j)
    return tuple(found)


def _power(x: Value, n: int) -> Value:
    """Return x**n by products of squares."""
    result: Value | None = None
    while True:
        if n & 1:
            result = x if result is None else result * x
        n >>= 1
        if not n:
            break
        x = x * x
    assert result is not None, "the power is not 0"
    return result


def _of_cotangent(n: int) -> tuple[float, ...]:
    """Return the n-th derivative of pi / tan(pi * x) in powers of 1 / tan(pi * x): p becomes -(1 + c * c) * dp / dc."""
    rising = [0.0, 1.0]
    for _ in range(n):
        slope = [k * p for k, p in enumerate(rising)][1:]
        rising = [-(low + high) for low, high in zip([*slope, 0.0, 0.0], [0.0, 0.0, *slope], strict=True)]
    return tuple(p * pi ** (n + 1) for p in rising)

"""lgamma, digamma: Stirling's series, after a shift of the argument to its range; float32 is computed in float64.

Below 0, reflection formulas apply (Abramowitz and Stegun, 6.1.17, 6.1.41, 6.3.7, 6.3.18). The functions take some 200
and 120 instructions. Near a zero of a function, its error is small relative to 1 and not to the result.
"""

from __future__ import annotations

from math import inf, nan, pi
from math import log as log_of
from typing import Final

from runtime.codegen.ir import FLOAT64, Value
from runtime.codegen.ir.words import absolute, convert, maximum, minimum, where
from runtime.codegen.math.logarithm import log
from runtime.codegen.math.polynomial import polynomial
from runtime.codegen.math.rounding import rint
from runtime.codegen.math.trigonometric import near_zero

AFTER_GAMMA: Final = (
    0.42278433509846713,
    0.32246703342411326,
    -0.06735230105319817,
    0.020580808427780338,
    -0.007385551028664092,
    0.0028905103310367035,
    -0.0011927539121678776,
    0.000509669515350207,
    -0.00022315474731201437,
    9.945767437687767e-05,
    -4.4926390783770946e-05,
    2.05055845582736e-05,
    -9.4381893256807e-06,
    4.384731121462316e-06,
    -2.0459860488889198e-06,
    9.199916830209049e-07,
    -4.2808158183434706e-07,
    2.7879835060847954e-07,
    -1.361501045194122e-07,
)
"""log(gamma(2 + x)) / x in powers of x, for sizes of x up to 1/2."""

STIRLING_FROM: Final = 8
LGAMMA_TAIL: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
"""log(gamma(x)), less the first terms of Stirling's series, times x, in powers of 1 / x**2."""

SHIFT: Final = 10
DIGAMMA_TAIL: Final = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760, -1 / 12)
"""digamma(x) - log(x) + 1 / (2 * x) in powers of 1 / x**2, without a constant."""


def lgamma(x: Value) -> Value:
    """Return log(|gamma(x)|), within 1e-15 (float32: 6e-8) of the larger of 1 and the size of the result."""
    wide = convert(x, FLOAT64)
    size = absolute(wide)
    y = where(size < STIRLING_FROM, _lgamma_of_small(size), _lgamma_of_large(size))
    sine, _ = of_half_turns(wide)
    reflected = -(log(absolute(sine) / pi) + log(size) + y)
    y = where(wide < 0, where(sine.equal(0), inf, reflected), y)
    return convert(y, x.type.of(0))


def digamma(x: Value) -> Value:
    """Return digamma, within 4e-15 (float32: 6e-8) of the larger of 1 and the size of the result."""
    wide = convert(x, FLOAT64)
    z = where(wide < 0, 1 - wide, wide)
    near = 1 / (z + SHIFT)
    square = near * near
    y = log(z + SHIFT) + square * polynomial(square, DIGAMMA_TAIL) - near * 0.5
    z = minimum(z, 2.0**100)  # the fractions are negligible beyond
    for k in range(1, SHIFT // 2):  # adds two fractions per iteration
        y = y - (z + z + SHIFT) / ((z + k) * (z + (SHIFT - k)))
    y = y - 1 / (z + SHIFT // 2) - 1 / z
    sine, cosine = of_half_turns(wide)
    y = where(wide < 0, where(sine.equal(0), nan, y - cosine / sine * pi), y)
    return convert(y, x.type.of(0))


def _lgamma_of_large(x: Value) -> Value:
    near = 1 / x
    tail = polynomial(near * near, LGAMMA_TAIL) * near
    return (log(x) - 1) * (x - 0.5) + (log_of(2 * pi) - 1) / 2 + tail


def _lgamma_of_small(x: Value) -> Value:
    """Return lgamma of small numbers, by a polynomial around 2 and the factors between 2 and x."""
    whole = rint(x)
    part = x - whole
    factor = where(whole >= 2, x.like(1.0), x * where(whole < 1, part + 1, 1.0))
    for k in range(2, STIRLING_FROM):
        factor = where(whole > k, factor * (part + k), factor)
    more = log(factor)
    return part * polynomial(part, AFTER_GAMMA) + where(whole >= 2, more, -more)


def of_half_turns(x: Value) -> tuple[Value, Value]:
    """Return sine and cosine of pi * x, except for the sign of both; the sine of whole numbers is 0."""
    x = minimum(maximum(x, -(2.0**53)), 2.0**53)
    part = x - rint(x)
    is_far = absolute(part) > 0.25
    rest = where(is_far, absolute(part) - 0.5, part)
    sine, cosine = near_zero(rest * pi)
    return where(is_far, where(part < 0, -cosine, cosine), sine), where(is_far, -sine, cosine)

"""asin, acos, atan, atan2: polynomials near 0, and rotations of other angles to there."""

from __future__ import annotations

from math import inf, pi
from typing import Final

from runtime.codegen.ir import Value
from runtime.codegen.ir.words import absolute, bits, copysign, fma, sqrt, where
from runtime.codegen.math.polynomial import polynomial

AFTER_ARCSINE: Final = {
    32: (0.16666754, 0.074952416, 0.045477107, 0.024147563, 0.042218618),
    64: (
        0.16666666666666718,
        0.07499999999978994,
        0.04464285716841009,
        0.030381942956490757,
        0.022372208931620542,
        0.017351708235774786,
        0.01397978268058222,
        0.011406653911788637,
        0.010740277982895013,
        0.003846708037996316,
        0.021387998993318676,
        -0.020573464229174613,
        0.03237676387438013,
    ),
}
"""(asin(x) / x - 1) / x**2 in powers of x**2, for sizes of x up to 1/2."""

AFTER_ARCTANGENT: Final = {
    32: (-0.33333316, 0.1999849, -0.1424383, 0.105958655, -0.060830902),
    64: (
        -0.33333333333333265,
        0.1999999999996803,
        -0.14285714281379522,
        0.11111110833881545,
        -0.0909089903156933,
        0.07692080539943529,
        -0.06663314439965679,
        0.058492994289885004,
        -0.05045210281689214,
        0.038205034899001435,
        -0.018052096300798043,
    ),
}
"""(atan(t) / t - 1) / t**2 in powers of t**2, for sizes of t up to tan(pi / 8)."""

PI: Final = {32: (3.1415927410125732, -8.742277657347586e-08), 64: (pi, 1.2246467991473532e-16)}
"""pi as the nearest float and the rest."""

TANGENT_OF_EIGHTH_PI: Final = 0.4142135623730950
"""The tangent of pi / 8."""


def asin(x: Value) -> Value:
    """Return the inverse sine; at most 2.3 and 1.9 ulp; NaN beyond 1."""
    angle, is_near = _arcsine(x)
    high, low = PI[x.type.bits]
    far = high / 2 - ((angle + angle) - low / 2)
    return copysign(where(is_near, angle, far), x)


def acos(x: Value) -> Value:
    """Return the inverse cosine; at most 1.2 and 1.2 ulp; NaN beyond 1."""
    angle, is_near = _arcsine(x)
    high, low = PI[x.type.bits]
    half = high / 2 - (copysign(angle, x) - low / 2)
    twice = angle + angle
    far = where(x < 0, high - (twice - low), twice)
    return where(is_near, half, far)


def atan(x: Value) -> Value:
    """Return the inverse tangent; at most 1.8 and 1.6 ulp."""
    return copysign(_angle(absolute(x), x.like(1.0)), x)


def atan2(y: Value, x: Value) -> Value:
    """Return the angle of the point (x, y), from -pi to pi; at most 1.4 and 1.8 ulp."""
    rise, run = absolute(y), absolute(x)
    both = rise.equal(inf) & run.equal(inf)
    size = where(both, 1.0, rise), where(both, 1.0, run)
    large = 2.0 ** (2 ** (6 if x.type.bits == 32 else 9) * 1.9)  # sums of larger numbers may be infinite
    is_small = (size[0] < 1 / large) & (size[1] < 1 / large)  # the comparisons of `_angle` would round denormals
    scale = where(is_small, x.like(large), where((size[0] > large) | (size[1] > large), x.like(0.25), 1.0))
    angle = _angle(size[0] * scale, size[1] * scale)
    high, low = PI[x.type.bits]
    is_left = bits(x, x.type.of(0).bits_of("signed")) < 0
    return copysign(where(is_left, high - (angle - low), angle), y)


def _arcsine(x: Value) -> tuple[Value, Value]:
    """Return the arc sine of |x| or of sqrt((1 - |x|) / 2), and a mask of the lanes with the former."""
    size = absolute(x)
    is_near = size <= 0.5
    z = where(is_near, x * x, (1 - size) * 0.5)
    s = where(is_near, size, sqrt(z))
    return fma(s * z, polynomial(z, AFTER_ARCSINE[x.type.bits]), s), is_near


def _angle(rise: Value, run: Value) -> Value:
    """Return the angle of a point in the first quadrant, measured from the nearest axis or diagonal."""
    is_steep, is_flat = rise * TANGENT_OF_EIGHTH_PI > run, rise <= run * TANGENT_OF_EIGHTH_PI
    top = where(is_flat, rise, where(is_steep, -run, rise - run))
    bottom = where(is_flat, run, where(is_steep, rise, rise + run))
    t = top / where(top.equal(0), 1.0, bottom)
    z = t * t
    near = fma(t * z, polynomial(z, AFTER_ARCTANGENT[t.type.bits]), t)
    high, low = PI[t.type.bits]
    turn = where(is_flat, t.like(0.0), where(is_steep, t.like(high / 2), high / 4))
    rest = where(is_flat, t.like(0.0), where(is_steep, t.like(low / 2), low / 4))
    return turn + (near + rest)

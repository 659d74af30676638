"""exp, exp2, expm1, and exp of what is not positive: a power of two, times a polynomial of the rest."""

from __future__ import annotations

from typing import Final

from runtime.engines.native.ir import INT32, INT64, Type, Value
from runtime.engines.native.ir.words import bits, copysign, fma, maximum, minimum, where
from runtime.engines.native.math.polynomial import polynomial

AFTER_EXP: Final = {
    32: (0.5, 0.16666667, 0.041666344, 0.00833327, 0.0013942034, 0.00019915581),
    64: (
        0.5,
        0.16666666666666677,
        0.041666666666666706,
        0.008333333333320668,
        0.001388888888886503,
        0.00019841269888854065,
        2.4801587364162094e-05,
        2.7557241206141493e-06,
        2.7557239660521503e-07,
        2.5110163372284758e-08,
        2.0925403682708125e-09,
    ),
}
"""(exp(r) - 1 - r) / r**2 for sizes of r up to 0.35."""

LOG2E: Final = 1.4426950408889634
LN2: Final = 0.6931471805599453
LN2_PARTS: Final = {32: (0.693359375, -2.12194440e-4), 64: (0.6931471803691238, 1.9082149292705877e-10)}
"""The first has so few digits that a product with a power of two's exponent is exact."""

LIMITS: Final = {32: (-104.0, 89.0), 64: (-746.0, 710.0)}
"""Below the first exp is 0, above the second infinite."""

LEAST_NORMAL: Final = {32: -87.0, 64: -708.0}
"""From here on exp is a normal number."""

MANTISSA: Final = {32: 23, 64: 52}


def exp(x: Value) -> Value:
    """The exponential function; at most 1.0 and 1.0 ulp."""
    n, whole, r = _split(x)
    return _scaled(1 + _expm1_near(r), n, whole)


def exp_below(x: Value) -> Value:
    """The exponential function of what is at most a little above 0, for weights: 0 where there is no normal number."""
    least = LEAST_NORMAL[x.type.bits]
    inside = maximum(x, least)
    large = 1.5 * 2.0 ** MANTISSA[x.type.bits]
    lifted = fma(inside, LOG2E, large)
    n, (one, two) = lifted - large, LN2_PARTS[x.type.bits]
    r = fma(n, -two, fma(n, -one, inside))
    power = bits(lifted, _whole(x)) << MANTISSA[x.type.bits]  # of the large number nothing is left
    power = bits(power + bits(x.like(1), _whole(x)), x.type)
    return where(x < least, 0.0, polynomial(r, (1, 1, *AFTER_EXP[x.type.bits])) * power)


def exp2(x: Value) -> Value:
    """2**x; at most 1.0 and 1.1 ulp, and exact for whole numbers."""
    low, high = LIMITS[x.type.bits]
    x = minimum(maximum(x, low * LOG2E), high * LOG2E)
    n, whole = _nearest(x)
    return _scaled(1 + _expm1_near((x - n) * LN2), n, whole)


def exp2_of_pair(high: Value, low: Value) -> Value:
    """2**(high + low), where low is small beside high."""
    least, most = LIMITS[high.type.bits]
    high = minimum(maximum(high, least * LOG2E - 2), most * LOG2E + 2)
    n, whole = _nearest(high)
    low = minimum(maximum(low, -1.0), 1.0)  # beyond the limits it need not be small
    return _scaled(1 + _expm1_near(((high - n) + low) * LN2), n, whole)


def expm1(x: Value) -> Value:
    """exp(x) - 1; at most 1.5 and 2.0 ulp, also near 0."""
    _, whole, r = _split(maximum(x, -40.0))
    half = power_of_two(whole - 1)  # of a number of 128 or 1024 twos only half can be written
    y = fma(_expm1_near(r), half, half - 0.5)
    return copysign(y + y, x)


def _split(x: Value) -> tuple[Value, Value, Value]:
    """X as n * log(2) + r, with n as float and as whole number."""
    low, high = LIMITS[x.type.bits]
    x = minimum(maximum(x, low), high)
    n, whole = _nearest(x * LOG2E)
    first, second = LN2_PARTS[x.type.bits]
    return n, whole, fma(n, -second, fma(n, -first, x))


def _nearest(x: Value) -> tuple[Value, Value]:
    """The nearest whole number, as float and as whole number: by a sum that has no room for a fraction."""
    large = 1.5 * 2.0 ** MANTISSA[x.type.bits]
    lifted = x + large
    return lifted - large, bits(lifted, _whole(x)) - bits(x.like(large), _whole(x))


def _expm1_near(r: Value) -> Value:
    return fma(r * r, polynomial(r, AFTER_EXP[r.type.bits]), r)


def _scaled(y: Value, n: Value, whole: Value) -> Value:
    """Y * 2**n in two steps, as neither 2**n nor what is left of y need be normal numbers."""
    half = whole >> 1
    return y * power_of_two(half) * power_of_two(whole - half)


def power_of_two(whole: Value) -> Value:
    """2**n for exponents of normal numbers."""
    bias = 2 ** (whole.type.bits - MANTISSA[whole.type.bits] - 2) - 1
    element = Type("float", whole.type.bits)
    return bits((whole + bias) << MANTISSA[whole.type.bits], element)


def _whole(x: Value) -> Type:
    return INT32 if x.type.bits == 32 else INT64

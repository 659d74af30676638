"""fmod, remainder, floor_divide: division with a remainder, which is exact for floats of any size."""

from __future__ import annotations

from math import inf, nan
from typing import Final

from runtime.codegen.ir import FLOAT32, FLOAT64, INT32, INT64, UINT64, Type, Value
from runtime.codegen.ir.words import absolute, any_lane, bits, convert, copysign, quotient, where
from runtime.codegen.math.exponential import MANTISSA, power_of_two
from runtime.codegen.math.logarithm import SMALLEST_NORMAL
from runtime.codegen.math.rounding import floor

UNSIGNED: Final = {32: INT32, 64: UINT64}
"""The integer type from which digits become floats in few instructions."""


def fmod(a: Value, b: Value) -> Value:
    """Return the remainder of a / b with the sign of a, exactly; for a divisor of 0, integers give 0 and floats NaN."""
    if not a.type.is_float:
        divisor = _divisor(a, b)
        return a - _quotient(a, divisor) * divisor
    size = MANTISSA[a.type.bits]
    (digits, e), (divisor, least) = _digits(a), _digits(b)
    left = e - least
    loop = a.function.repeat([digits, left])
    for digits, steps in loop:  # long division: each iteration finds a binary digit of the quotient
        following = _less(digits, divisor) << 1
        steps_left = steps - 1
        loop.carry([where(steps > 0, following, digits), steps_left], any_lane(steps_left > 0))
    rest = convert(convert(_less(loop.results[0], divisor), UNSIGNED[a.type.bits]), a.type.of(0))
    bias = 2 ** (a.type.bits - size - 2) - 1
    scale = least - (bias + size)
    half = scale >> 1
    result = where(left < 0, absolute(a), rest * power_of_two(half) * power_of_two(scale - half))
    fits = (absolute(a) < inf) & (absolute(b) > 0)  # neither holds for a NaN
    return where(fits, copysign(result, a), nan)


def remainder(a: Value, b: Value) -> Value:
    """Return the remainder of a / b with the sign of b; for a divisor of 0 as `fmod`.

    It is exact except for the rounding of a sum with b.
    """
    rest = fmod(a, b)
    if a.type.kind == "unsigned":
        return rest
    beyond = _is_beyond(rest, b)
    if not a.type.is_float:
        return where(beyond, rest + b, rest)
    return where(beyond, rest + b, where(rest.equal(0), copysign(rest, b), rest))


def floor_divide(a: Value, b: Value) -> Value:
    """Return the largest integer that is not above a / b; for a divisor of 0, integers give 0, and floats a / b."""
    if not a.type.is_float:
        return _floor_of_whole(a, b)
    rest = fmod(a, b)
    x, y, r = (convert(value, FLOAT64) for value in (a, b, rest))
    whole = (x - r) / y
    whole = where(_is_beyond(r, y), whole - 1, whole)
    down = floor(whole)
    down = where(whole - down > 0.5, down + 1, down)
    down = where(whole.equal(0), copysign(0.0, x / y), down)
    return where(b.equal(0), a / b, convert(down, a.type.of(0)))


def _floor_of_whole(a: Value, b: Value) -> Value:
    divisor = _divisor(a, b)
    near = _quotient(a, divisor)
    if a.type.kind == "signed":
        near = where(_is_beyond(a - near * divisor, divisor), near - 1, near)
        near = where(b.equal(-1), 0 - a, near)
    return where(b.equal(0), 0, near)


def _quotient(a: Value, b: Value) -> Value:
    """Return a / b of integers, towards zero; no target divides integer vectors, so floats with spare digits divide."""
    if a.type.bits == 64:
        return quotient(a, b)
    wide = FLOAT32 if a.type.bits == 8 else FLOAT64
    return convert(convert(a, wide) / convert(b, wide), a.type.of(0))


def _divisor(a: Value, b: Value) -> Value:
    """Return b, or 1 where the division would trap."""
    b = a.like(b)
    stops = b.equal(0) | b.equal(-1) if a.type.kind == "signed" else b.equal(0)
    return where(stops, 1, b)


def _is_beyond(rest: Value, b: Value) -> Value:
    """Return a mask of the lanes in which the remainder has another sign than b."""
    return rest.not_equal(0) & ((rest < 0) ^ (b < 0))


def _digits(x: Value) -> tuple[Value, Value]:
    """Return the digits of |x| as an integer, and its biased exponent, which is 0 or less for a subnormal number."""
    size, mantissa = absolute(x), MANTISSA[x.type.bits]
    few = size < SMALLEST_NORMAL[x.type.bits]
    b = bits(where(few, size * 2.0**mantissa, size), _whole(x))
    e = (b >> mantissa) - where(few, b.like(mantissa), 0)
    return (b & (2**mantissa - 1)) | 2**mantissa, e


def _less(digits: Value, divisor: Value) -> Value:
    """Subtract the divisor once, where the difference is not negative."""
    rest = digits - divisor
    return where(rest < 0, digits, rest)


def _whole(x: Value) -> Type:
    return INT32 if x.type.bits == 32 else INT64

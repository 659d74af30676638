"""exp, exp2, expm1, and exp of numbers that are not positive: a power of two, times a polynomial of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Final

from runtime.codegen.ir import INT32, INT64, Type, Value
from runtime.codegen.ir.words import bits, copysign, fma, maximum, minimum, where
from runtime.codegen.math.polynomial import polynomial

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
"""log(2) as a sum; the first part has so few digits that its product with the exponent of a float is exact."""

UNDERFLOW_ARGUMENTS: Final = {32: -104.0, 64: -746.0}
"""exp is 0 below these numbers."""

EXPONENTS: Final = {32: -126, 64: -1022}
"""Exponents of the least normal numbers."""

EXPONENT_OFFSET: Final = 64
"""The number that is added to exponents to make small numbers normal."""

LEAST_NORMAL: Final = {32: -87.0, 64: -708.0}
"""exp is a normal number from here on."""

MANTISSA: Final = {32: 23, 64: 52}

SCALED_BITS: Final = 512
"""Bits of the vectors that one instruction of AVX-512 multiplies by powers of two."""

ROUNDING_OF_THE_MODE: Final = 4
"""The operand of an instruction of AVX-512 that rounds as the processor's mode says: to the nearest."""


def exp(x: Value) -> Value:
    """Return the exponential function; at most 1.0 and 1.0 ulp."""
    n, whole, r = _split(x)
    return _scaled(1 + _expm1_near(r), (n, whole), x, LN2)


def exp_below(x: Value) -> Value:
    """Return the exponential function of numbers at most slightly above 0; 0 where the result is not normal."""
    least = LEAST_NORMAL[x.type.bits]
    inside = maximum(x, least)
    large = 1.5 * 2.0 ** MANTISSA[x.type.bits]
    lifted = fma(inside, LOG2E, large)
    n, (one, two) = lifted - large, LN2_PARTS[x.type.bits]
    r = fma(n, -two, fma(n, -one, inside))
    power = bits(lifted, _whole(x)) << MANTISSA[x.type.bits]  # the shift removes all bits of the large number
    power = bits(power + bits(x.like(1), _whole(x)), x.type)
    return where(x < least, 0.0, polynomial(r, (1, 1, *AFTER_EXP[x.type.bits])) * power)


def exp_beside_one(x: Value) -> Value:
    """Return `exp` for a sum with a number near 1; a result below the normal numbers may be any other such number."""
    _, whole, r = _split(x, LEAST_NORMAL)
    y, digits = 1 + _expm1_near(r), MANTISSA[x.type.bits]
    normal = bits(bits(y, whole.type) + (whole << digits), y.type)
    return where(x < (2 - EXPONENTS[x.type.bits]) * LN2, normal, x.like(inf) + x)


def exp2(x: Value) -> Value:
    """Return 2**x; at most 1.0 and 1.1 ulp, and exact for whole numbers."""
    x = maximum(x, UNDERFLOW_ARGUMENTS[x.type.bits] * LOG2E)
    n, whole = _nearest(x)
    return _scaled(1 + _expm1_near((x - n) * LN2), (n, whole), x, 1.0)


def exp2_of_pair(high: Value, low: Value) -> Value:
    """Return 2**(high + low), where low is small beside high."""
    high = maximum(high, UNDERFLOW_ARGUMENTS[high.type.bits] * LOG2E - 2)
    n, whole = _nearest(high)
    low = minimum(maximum(low, -1.0), 1.0)  # it may be large beyond the limits
    return _scaled(1 + _expm1_near(((high - n) + low) * LN2), (n, whole), high, 1.0, low)


def expm1(x: Value) -> Value:
    """Return exp(x) - 1; at most 1.5 and 2.0 ulp, also near 0."""
    most = (2 - EXPONENTS[x.type.bits]) * LN2 + 0.3  # the result is infinite there
    _, whole, r = _split(minimum(maximum(x, -40.0), most))
    half = power_of_two(whole - 1)  # the full power of two may exceed the largest exponent; its half does not
    y = fma(_expm1_near(r), half, half - 0.5)
    return copysign(y + y, x)


def expm1_of_size(x: Value) -> Value:
    """Return `expm1` of a number from 0 to 40."""
    _, whole, r = _rest(x)
    power = power_of_two(whole)
    return fma(_expm1_near(r), power, power - 1)


def _split(x: Value, limits: Mapping[int, float] = UNDERFLOW_ARGUMENTS) -> tuple[Value, Value, Value]:
    """Return n, n as an integer, and the rest r of x = n * log(2) + r, for x from where exp is not 0."""
    return _rest(maximum(x, limits[x.type.bits]))


def _rest(x: Value) -> tuple[Value, Value, Value]:
    n, whole = _nearest(x * LOG2E)
    first, second = LN2_PARTS[x.type.bits]
    return n, whole, fma(n, -second, fma(n, -first, x))


def _nearest(x: Value) -> tuple[Value, Value]:
    """Return the nearest whole number as a float and as an integer, by a sum that has no bits for a fraction."""
    large = 1.5 * 2.0 ** MANTISSA[x.type.bits]
    lifted = x + large
    return lifted - large, bits(lifted, _whole(x)) - bits(x.like(large), _whole(x))


def _expm1_near(r: Value) -> Value:
    return fma(r * r, polynomial(r, AFTER_EXP[r.type.bits]), r)


def _scaled(y: Value, n: tuple[Value, Value], x: Value, item: float, more: Value | None = None) -> Value:
    """Return y * 2**n, with infinities and NaN as x implies; an increase of x by `item` doubles the result.

    n is given as a float and as an integer. `more` is a small term of the exponent besides x.
    """
    least = EXPONENTS[x.type.bits]
    if "+avx512f" in x.function.target.features and y.type.lanes * y.type.bits == SCALED_BITS:
        scaled = _scaled_by_instruction(y, n[0])
    else:
        scaled = _scaled_by_integers(y, n[1], _is_below(x, least * item, more))
    return where(_is_below(x, (2 - least) * item, more), scaled, x.like(inf) + x)


def _scaled_by_instruction(y: Value, n: Value) -> Value:
    """Return y * 2**n by an instruction that rounds once and takes no longer for subnormal results."""
    f, mask, kind = y.function, f"i{y.type.lanes}", y.type
    name = f"llvm.x86.avx512.mask.scalef.p{'s' if kind.bits == 32 else 'd'}.512"
    f.module.declare(f"declare {kind} @{name}({kind}, {kind}, {kind}, {mask}, i32)")
    given = f"{kind} {y.text}, {kind} {n.text}, {kind} zeroinitializer, {mask} -1, i32 {ROUNDING_OF_THE_MODE}"
    return f.emit(f"call {kind} @{name}({given})", kind)


def _scaled_by_integers(y: Value, whole: Value, is_small: Value) -> Value:
    """Return y * 2**n by additions to exponents; `is_small` is True where the result is no normal number.

    There y * 2**(n + 64) is added to a number whose last digit equals that of the smallest subnormal numbers; the
    result is the difference of the bits. A multiplication with a subnormal result would take very long.
    """
    digits, least = MANTISSA[y.type.bits], EXPONENTS[y.type.bits]
    power = whole << digits
    normal = bits(bits(y, power.type) + power, y.type)
    base = y.like(2.0 ** (least + EXPONENT_OFFSET))
    raised = bits(bits(y, power.type) + (power + (EXPONENT_OFFSET << digits)), y.type)
    small = bits(bits(raised + base, power.type) - bits(base, power.type), y.type)
    return where(is_small, small, normal)


def _is_below(x: Value, bound: float, more: Value | None) -> Value:
    return x < bound if more is None else (x - bound) + more < 0


def power_of_two(whole: Value) -> Value:
    """Return 2**n for exponents of normal numbers."""
    bias = 2 ** (whole.type.bits - MANTISSA[whole.type.bits] - 2) - 1
    element = Type("float", whole.type.bits)
    return bits((whole + bias) << MANTISSA[whole.type.bits], element)


def _whole(x: Value) -> Type:
    return INT32 if x.type.bits == 32 else INT64

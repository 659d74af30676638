"""Angles modulo quarter turns, accurate to the last digits for angles of any size.

Three parts of pi / 2, whose products are exact, reduce angles up to a million. Larger angles are rare; a loop reduces
them lane by lane: the product of an integer with the 192 relevant bits of 2 / pi (Payne and Hanek, "Radian reduction
for trigonometric functions", 1983).
"""

from __future__ import annotations

from math import inf, nan, pi
from typing import Final

from runtime.codegen.ir import FLOAT64, INT64, UINT64, Type, Value
from runtime.codegen.ir.words import (
    absolute,
    any_lane,
    bits,
    convert,
    fma,
    lane,
    leading_zeros,
    minimum,
    where,
    with_lane,
)
from runtime.codegen.math.exponential import MANTISSA, power_of_two

HALF_PI: Final = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
"""pi / 2 as a sum; the first two terms have 33 bits, so that their products with numbers below 2**20 are exact."""

FEW_TURNS: Final = 2.0**20
"""Size of angles up to which those parts reduce them."""

FRACTION_BITS: Final = 1216
TWO_OVER_PI: Final = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424d"
    "d2e006492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639"
    "835339f49c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f46"
    "3f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6bab",
    16,
)
"""2 / pi with `FRACTION_BITS` bits after the point."""

WIDE: Final = Type("unsigned", 192)
"""Type with 2 bits for a quarter, 53 for the digits of an angle, 62 for its distance to a quarter, and 60 to spare."""


def reduced(x: Value) -> tuple[Value, Value]:
    """Return the angle less the nearest number of quarter turns, and the last two bits of that number."""
    f, large = x.function, absolute(x) >= FEW_TURNS
    rest, quarters = _by_parts(x)
    turns = where(any_lane(large), f.constant(INT64, max(x.type.lanes, 1)), 0)
    loop = f.loop(0, turns, 1, [rest, quarters])
    for i, [found, counted] in loop:
        angle = lane(x, i)
        near, number = _by_digits(angle)
        is_large = absolute(angle) >= FEW_TURNS
        near, number = where(is_large, near, lane(found, i)), where(is_large, number, lane(counted, i))
        loop.carry([with_lane(found, i, near), with_lane(counted, i, number)])
    rest, quarters = loop.results
    return rest, quarters


def _by_parts(x: Value) -> tuple[Value, Value]:
    wide = convert(x, FLOAT64)
    large = 1.5 * 2.0**52
    n = (wide * (2 / pi) + large) - large
    first, second, third = HALF_PI
    rest = fma(n, -third, fma(n, -second, fma(n, -first, wide)))
    lifted = convert(n, x.type.of(0)) + 1.5 * 2.0 ** MANTISSA[x.type.bits]
    return convert(rest, x.type.of(0)), bits(lifted, x.type.of(0).bits_of("signed"))


def _by_digits(x: Value) -> tuple[Value, Value]:
    """Reduce one angle: multiply its digits by those of 2 / pi, without the bits that contribute whole turns."""
    b = bits(convert(absolute(x), FLOAT64), INT64)
    e = (b >> 52) - (1023 + 52)
    digits = convert(convert((b & (2**52 - 1)) | 2**52, UINT64), WIDE)
    drop = minimum((FRACTION_BITS - 183) - e, FRACTION_BITS - 151)  # bits of 2 / pi that are too small to matter
    table = x.function.data("two_over_pi", TWO_OVER_PI.to_bytes(FRACTION_BITS // 8 + 8, "little"))
    window = x.function.read(table + (drop >> 3), WIDE)
    turned = (digits * window) << convert(convert(7 - (drop & 7), UINT64), WIDE)
    quarters = (turned + (1 << 189)) >> 190
    fraction = turned << 2
    is_below = (fraction >> 191).not_equal(0)
    size = where(is_below, 0 - fraction, fraction)
    zeros = leading_zeros(size)
    top = convert((size << zeros) >> 128, UINT64)
    y = convert(top, FLOAT64) * power_of_two(-64 - convert(convert(zeros, UINT64), INT64)) * (pi / 2)
    is_negative = x < 0
    number = convert(convert(quarters, UINT64), INT64)
    y = where(is_below ^ is_negative, -y, y)
    y = where(absolute(x) < inf, y, nan)
    number = where(is_negative, 0 - number, number)
    return convert(y, x.type.of(0)), convert(number, x.type.of(0).bits_of("signed"))

"""pow: of float32 through float64, whose logarithm has digits to spare; of float64 by a longer logarithm."""

from __future__ import annotations

from math import inf, nan
from typing import Final

from runtime.engines.native.ir import FLOAT64, INT64, Value
from runtime.engines.native.ir.words import absolute, bits, convert, is_nan, maximum, minimum, where
from runtime.engines.native.math.exponential import LOG2E, exp2, exp2_of_pair
from runtime.engines.native.math.logarithm import log2, split
from runtime.engines.native.math.pairs import Pair, product_of, sum_of
from runtime.engines.native.math.polynomial import polynomial
from runtime.engines.native.math.rounding import rint

AFTER_LONG_LOG: Final = (
    0.4000000000000021,
    0.28571428571007657,
    0.22222222369672778,
    0.18181796616604298,
    0.15386228791590068,
    0.13268402264676907,
    0.1309468393116392,
)
"""((log((1 + s) / (1 - s)) / s - 2) / s**2 - 2 / 3) / s**2, in powers of s**2, for sizes of s up to 0.1716."""

TWO_THIRDS: Final = (2 / 3, 3.700743415417188e-17)
LOG2E_REST: Final = 2.0355273740931033e-17
"""What LOG2E lacks."""

MOST: Final = 2.0**70
"""Powers of numbers beside 1 by this are infinite, or 0."""


def pow(x: Value, y: Value) -> Value:
    """x**y; at most 0.6 and 1.2 ulp."""
    a, b = convert(x, FLOAT64), convert(y, FLOAT64)
    power = exp2(b * log2(absolute(a))) if x.type.bits == 32 else _long(absolute(a), b)
    whole, odd = rint(b).equal(b), rint(b * 0.5).not_equal(b * 0.5)
    power = where(odd & whole & (bits(a, INT64) < 0), -power, power)
    power = where((a < 0) & (a > -inf) & ~whole, nan, power)
    unit = b.equal(0) | a.equal(1) | (a.equal(-1) & absolute(b).equal(inf))
    return convert(where(unit, 1.0, power), x.type.of(0))


def _long(size: Value, y: Value) -> Value:
    """The power of a number that is not negative."""
    exponent = minimum(maximum(y, -MOST), MOST)
    first, second = _log2(size)
    high, low = product_of(exponent, first)
    power = exp2_of_pair(high, low + exponent * second)
    least = size.equal(0)
    power = where(least | size.equal(inf), where(least ^ (y < 0), size.like(0.0), inf), power)
    return where(is_nan(size) | is_nan(y), nan, power)


def _log2(x: Value) -> Pair:
    """With s = f / (2 + f), from the series of (1 + s) / (1 - s) with its first two terms as pairs."""
    e, f = split(x)
    d, d_rest = sum_of(f.like(2.0), f)
    s = f / d
    p, p_rest = product_of(s, d)
    s_rest = (((f - p) - p_rest) - s * d_rest) / d
    z, z_rest = product_of(s, s)
    z_rest = z_rest + (s + s) * s_rest
    t, t_rest = product_of(z, TWO_THIRDS[0])
    t_rest = t_rest + z_rest * TWO_THIRDS[0] + z * TWO_THIRDS[1]
    t, more = sum_of(t, z * z * polynomial(z, AFTER_LONG_LOG))
    t_rest = t_rest + more
    bend, bend_rest = product_of(s, t)
    bend_rest = bend_rest + s * t_rest + s_rest * t
    log, log_rest = sum_of(s + s, bend)
    log_rest = log_rest + (bend_rest + (s_rest + s_rest))
    g, g_rest = product_of(log, LOG2E)
    g_rest = g_rest + log * LOG2E_REST + log_rest * LOG2E
    total, rest = sum_of(e, g)
    return total, rest + g_rest

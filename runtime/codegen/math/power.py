"""pow: for float32 in float64, with as many terms as float32 needs; for float64 by a logarithm of twice the digits."""

from __future__ import annotations

from math import inf, nan
from typing import Final

from runtime.codegen.ir import FLOAT64, INT32, INT64, Value
from runtime.codegen.ir.words import absolute, bits, convert, fma, is_nan, maximum, minimum, where
from runtime.codegen.math.exponential import LOG2E, MANTISSA, exp2_of_pair, power_of_two
from runtime.codegen.math.logarithm import ROOT_HALF, split
from runtime.codegen.math.pairs import Pair, product_of, sum_of
from runtime.codegen.math.polynomial import polynomial
from runtime.codegen.math.rounding import rint

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
"""The rounding error of LOG2E."""

SHORT_LOG2: Final = (
    2.8853900817899922,
    0.9617966734446384,
    0.5770835674156132,
    0.4116736766758363,
    0.34071378161364535,
)
"""log2((1 + s) / (1 - s)) / s, in powers of s**2, to 5e-12 of it."""

SHORT_EXP2: Final = (
    0.6931471805599453,
    0.24022650922288757,
    0.055504108839096185,
    0.009618056678524637,
    0.001333350238616277,
    0.0001546144469856913,
    1.5297323760701075e-05,
)
"""(2**r - 1) / r for sizes of r up to 0.5, to 2e-10."""

SHORT_MOST: Final = 200.0
"""Exponents of two from which on float32 is infinite, or 0."""

SIGNED: Final = {32: INT32, 64: INT64}
"""Integer types by the number of bits."""

OVERFLOWING_EXPONENT: Final = 2.0**70
"""Exponent from which on powers of numbers next to 1 are infinite, or 0."""


def pow(x: Value, y: Value) -> Value:
    """Return x**y; at most 0.6 and 1.2 ulp."""
    size, least = absolute(x), x.equal(0)
    power = _short(size, y) if x.type.bits == 32 else _long(size, y)
    power = where(least | size.equal(inf), where(least ^ (y < 0), size.like(0.0), inf), power)
    power = where(is_nan(x) | is_nan(y), nan, power)
    whole, odd = rint(y).equal(y), rint(y * 0.5).not_equal(y * 0.5)
    power = where(odd & whole & (bits(x, SIGNED[x.type.bits]) < 0), -power, power)
    power = where((x < 0) & (x > -inf) & ~whole, nan, power)
    item = y.equal(0) | x.equal(1) | (x.equal(-1) & absolute(y).equal(inf))
    return where(item, 1.0, power)


def _short(size: Value, y: Value) -> Value:
    """Return the power of a positive finite float32, computed in float64, where each float32 is a normal number."""
    wide, digits = convert(size, FLOAT64), MANTISSA[64]
    number = bits(wide, INT64)
    e = (number - ROOT_HALF[64]) >> digits
    f = bits(number - (e << digits), wide.type) - 1
    s = f / (f + 2)
    large = 1.5 * 2.0**digits
    whole = bits(e + bits(wide.like(large), INT64), wide.type) - large
    t = convert(y, FLOAT64) * fma(s, polynomial(s * s, SHORT_LOG2), whole)
    t = minimum(maximum(t, -SHORT_MOST), SHORT_MOST)
    lifted = t + large
    r = t - (lifted - large)
    power = power_of_two(bits(lifted, INT64) - bits(wide.like(large), INT64))
    return convert(fma(r, polynomial(r, SHORT_EXP2), 1.0) * power, size.type.of(0))


def _long(size: Value, y: Value) -> Value:
    """Return the power of a positive finite float64."""
    exponent = minimum(maximum(y, -OVERFLOWING_EXPONENT), OVERFLOWING_EXPONENT)
    first, second = _log2(size)
    high, low = product_of(exponent, first)
    return exp2_of_pair(high, low + exponent * second)


def _log2(x: Value) -> Pair:
    """Return log2(x) as a pair: the series of (1 + s) / (1 - s), s = f / (2 + f), with two terms as pairs."""
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

"""log, log2, log1p: the exponent, and a polynomial of the mantissa around 1."""

from __future__ import annotations

from math import inf, nan
from typing import Final

from runtime.codegen.ir import INT32, INT64, Type, Value
from runtime.codegen.ir.words import bits, convert, fma, where
from runtime.codegen.math.exponential import LN2_PARTS, LOG2E, MANTISSA
from runtime.codegen.math.polynomial import polynomial

AFTER_LOG: Final = {
    32: (0.6666667, 0.40000328, 0.28537667, 0.2357637),
    64: (
        0.6666666666666696,
        0.39999999999613545,
        0.2857142870502867,
        0.22222201945421172,
        0.18183406166395358,
        0.15317766667064456,
        0.1476136821171372,
    ),
}
"""(log((1 + s) / (1 - s)) / s - 2) / s**2, in powers of s**2, for sizes of s up to 0.1716."""

ROOT_HALF: Final = {32: 0x3F3504F3, 64: 0x3FE6A09E667F3BCD}
"""The bits of sqrt(0.5), the least mantissa; mantissas are below its double."""

SMALLEST_NORMAL: Final = {32: 2.0**-126, 64: 2.0**-1022}
"""The least normal number."""


def log(x: Value) -> Value:
    """Return the natural logarithm; at most 0.9 and 0.9 ulp."""
    e, f = split(x)
    return _where_positive(x, _log_of(e, f))


def log2(x: Value) -> Value:
    """Return the logarithm to base 2; at most 1.8 and 1.8 ulp, and exact for powers of two."""
    e, f = split(x)
    near = _log1p_near(f)
    return _where_positive(x, fma(near, LOG2E, e))


def log1p(x: Value) -> Value:
    """Return log(1 + x); at most 0.9 and 0.9 ulp, also near 0."""
    u = x + 1
    lost = x - (u - 1)  # the rounding error of the sum
    e, f = split(u)
    y = _log_of(e, f, lost / u)
    y = where(u < inf, where(u > 0, y, where(u < 0, nan, x.like(-inf))), x)
    return where(x.equal(0), x, y)


def split(x: Value) -> tuple[Value, Value]:
    """Return e and f of x = 2**e * (1 + f), for positive numbers."""
    size, mantissa = x.type.bits, MANTISSA[x.type.bits]
    whole = INT32 if size == 32 else INT64
    few = x < SMALLEST_NORMAL[size]
    b = bits(where(few, x * 2.0**mantissa, x), whole)
    e = (b - ROOT_HALF[size]) >> mantissa
    m = bits(b - (e << mantissa), x.type.of(0))
    e = e - where(few, e.like(mantissa), 0)
    return _small(e, x.type), m - 1


def _log_of(e: Value, f: Value, more: Value | None = None) -> Value:
    """Return e * log(2) + log(1 + f) + more, where `more` is small."""
    first, second = LN2_PARTS[f.type.bits]
    half, tail = _log1p_tail(f)
    low = fma(e, second, tail)
    low = low if more is None else low + more
    return fma(e, first, f - (half - low))


def _log1p_near(f: Value) -> Value:
    half, tail = _log1p_tail(f)
    return f - (half - tail)


def _log1p_tail(f: Value) -> tuple[Value, Value]:
    """Return half and tail of log(1 + f) = f - (half - tail): the series of (1 + s) / (1 - s) with s = f / (2 + f)."""
    s = f / (f + 2)
    z = s * s
    half = f * f * 0.5
    return half, s * fma(z, polynomial(z, AFTER_LOG[f.type.bits]), half)


def _small(e: Value, to: Type) -> Value:
    """Return a small integer as a float, by bit operations if the target may have no instruction."""
    if to.bits == 32:
        return convert(e, to.of(0))
    large = 1.5 * 2.0**52
    lifted = bits(e + bits(e.function.constant(to, large), INT64), to.of(0))
    return lifted - large


def _where_positive(x: Value, y: Value) -> Value:
    """Return y for positive finite numbers, and the logarithm of all others."""
    finite = (x > 0) & (x < inf)
    return where(finite, y, where(x.equal(0), -inf, where(x < 0, nan, x)))

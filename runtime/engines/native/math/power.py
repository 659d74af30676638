"""pow of float32: through float64, whose logarithm has digits to spare."""

from __future__ import annotations

from math import inf, nan

from runtime.engines.native.ir import FLOAT64, INT32, Value
from runtime.engines.native.ir.words import absolute, bits, convert, round_even, where
from runtime.engines.native.math.exponential import exp2
from runtime.engines.native.math.logarithm import log2


def pow(x: Value, y: Value) -> Value:
    """x**y of float32; at most 0.6 ulp. Of float64 there is none yet: it needs a logarithm of twice the length."""
    assert x.type.bits == 32, "pow of float64 has no vector code"
    a, b = convert(x, FLOAT64), convert(y, FLOAT64)
    size = absolute(a)
    power = exp2(b * log2(size))
    whole = (absolute(b) >= 2.0**31) | round_even(b).equal(b)
    half = b * 0.5
    odd = (absolute(b) < 2.0**31) & round_even(half).not_equal(half) & whole
    power = where(odd & _negative(x), -power, power)
    power = where((a < 0) & (a > -inf) & ~whole, nan, power)
    unit = b.equal(0) | a.equal(1) | (a.equal(-1) & absolute(b).equal(inf))
    return convert(where(unit, 1.0, power), x.type.of(0))


def _negative(x: Value) -> Value:
    """Lanes with the sign, of zeros too."""
    return bits(x, INT32) < 0

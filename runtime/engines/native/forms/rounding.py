"""To whole numbers: by sums that have no room for a fraction, as not every target has an instruction."""

from __future__ import annotations

from runtime.engines.native.forms.form import FLOATS, of_one
from runtime.engines.native.ir import Value
from runtime.engines.native.ir.words import absolute, copysign, where


def rint(x: Value) -> Value:
    """The nearest, of two the even one."""
    large = 2.0 ** (23 if x.type.bits == 32 else 52)  # from here on all numbers are whole
    size = absolute(x)
    return where(size < large, copysign((size + large) - large, x), x)


def floor(x: Value) -> Value:
    near = rint(x)
    return where(near > x, near - 1, near)


def ceil(x: Value) -> Value:
    return -floor(-x)


def trunc(x: Value) -> Value:
    return copysign(floor(absolute(x)), x)


of_one("floor", floor, FLOATS)
of_one("ceil", ceil, FLOATS)
of_one("round", rint, FLOATS)
of_one("trunc", trunc, FLOATS)

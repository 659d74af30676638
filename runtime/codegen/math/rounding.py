"""To whole numbers: by sums that have no room for a fraction, as not every target has an instruction. All exact."""

from __future__ import annotations

from runtime.codegen.ir import Value
from runtime.codegen.ir.words import absolute, copysign, where


def rint(x: Value) -> Value:
    """The nearest, of two the even one."""
    large = 2.0 ** (23 if x.type.bits == 32 else 52)  # from here on all numbers are whole
    size = absolute(x)
    return where(size < large, copysign((size + large) - large, x), x)


def floor(x: Value) -> Value:
    """The next below."""
    near = rint(x)
    return where(near > x, near - 1, near)


def ceil(x: Value) -> Value:
    """The next above."""
    return -floor(-x)


def trunc(x: Value) -> Value:
    """The next on the way to zero."""
    return copysign(floor(absolute(x)), x)

"""Rounding to whole numbers, by sums without bits for a fraction, because not every target has an instruction.

All results are exact.
"""

from __future__ import annotations

from runtime.codegen.ir import Value
from runtime.codegen.ir.words import absolute, copysign, where


def rint(x: Value) -> Value:
    """Return the nearest whole number, ties to even."""
    large = 2.0 ** (23 if x.type.bits == 32 else 52)  # all numbers from here on are whole
    size = absolute(x)
    return where(size < large, copysign((size + large) - large, x), x)


def floor(x: Value) -> Value:
    """Return the largest whole number that is not above x."""
    near = rint(x)
    return where(near > x, near - 1, near)


def ceil(x: Value) -> Value:
    """Return the least whole number that is not below x."""
    return -floor(-x)


def trunc(x: Value) -> Value:
    """Return the nearest whole number towards zero."""
    return copysign(floor(absolute(x)), x)

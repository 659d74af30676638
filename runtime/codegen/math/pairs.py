"""Numbers as sums of two floats, the second small beside the first: twice the digits.

Dekker, "A floating-point technique for extending the available precision", 1971.
"""

from __future__ import annotations

from typing import Final

from runtime.codegen.ir import Operand, Value
from runtime.codegen.ir.types import INT32, INT64
from runtime.codegen.ir.words import bits, fma

Pair = tuple[Value, Value]

LEADING_DIGIT_MASKS: Final = {32: (INT32, -1 << 12), 64: (INT64, -1 << 27)}
"""Masks that keep the leading digits of a number, few enough that products of them are exact."""


def sum_of(a: Value, b: Value) -> Pair:
    """Return a + b exactly, where a is the larger or 0."""
    total = a + b
    return total, b - (total - a)


def product_of(a: Value, b: Operand) -> Pair:
    """Return a * b exactly, unless it leaves the range of floats."""
    b = a.like(b)
    product = a * b
    if a.function.target.fma:
        return product, fma(a, b, -product)
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return product, a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)


def _halves(x: Value) -> Pair:
    """Return x as a sum of two numbers of few digits, whose products are exact."""
    kind, mask = LEADING_DIGIT_MASKS[x.type.bits]
    first = bits(bits(x, kind) & mask, x.type.of(0))
    return first, x - first

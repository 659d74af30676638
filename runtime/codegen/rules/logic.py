"""Bits, and classes of floats."""

from __future__ import annotations

from math import inf

from runtime.codegen.ir import Value
from runtime.codegen.ir.words import absolute, convert, is_nan, where
from runtime.codegen.rules.rule import FLOAT_DTYPES, of_one, of_two


def left_shift(a: Value, b: Value) -> Value:
    return where(_within(a, b), a << b, 0)


def right_shift(a: Value, b: Value) -> Value:
    beyond = where(a < 0, -1, a.like(0)) if a.type.kind == "signed" else 0
    return where(_within(a, b), a >> b, beyond)


def _within(a: Value, b: Value) -> Value:
    """Return a mask of the lanes whose shift is less than the number of bits; LLVM does not define larger shifts."""
    return convert(b, b.type.of(0).bits_of("unsigned")) < a.type.bits


of_two("logical_xor", lambda a, b: a ^ b)
of_two("bitwise_and", lambda a, b: a & b)
of_two("bitwise_or", lambda a, b: a | b)
of_two("bitwise_xor", lambda a, b: a ^ b)
of_one("bitwise_not", lambda x: ~x)
of_two("left_shift", left_shift)
of_two("right_shift", right_shift)

of_one("isnan", is_nan, FLOAT_DTYPES)
of_one("isinf", lambda x: absolute(x).equal(inf), FLOAT_DTYPES)
of_one("isfinite", lambda x: absolute(x) < inf, FLOAT_DTYPES)

"""Arithmetic, comparisons, selection."""

from __future__ import annotations

from runtime.codegen import math
from runtime.codegen.ir import Value
from runtime.codegen.ir.words import absolute, maximum, minimum, sqrt, where
from runtime.codegen.rules.rule import ALL_DTYPES, FLOAT_DTYPES, of_one, of_two, pointwise


def clip(x: Value, min: Value | None = None, max: Value | None = None) -> Value:
    x = x if min is None else maximum(x, min)
    return x if max is None else minimum(x, max)


def sign(x: Value) -> Value:
    return where(x > 0, 1, where(x < 0, -1, x + 0))  # keeps NaN, and -0.0 + 0.0 is 0.0


def join_shards(left: Value, right: Value, **shards: object) -> Value:
    return left + right


def lerp(a: Value, b: Value, weight: Value) -> Value:
    return where(weight < 0.5, a + weight * (b - a), b - (1 - weight) * (b - a))


of_two("add", lambda a, b: a + b)
of_two("join_shards", join_shards)
of_two("sub", lambda a, b: a - b)
of_two("mul", lambda a, b: a * b)
of_two("div", lambda a, b: a / b, FLOAT_DTYPES)
of_two("pow", math.pow, FLOAT_DTYPES)
of_two("maximum", maximum)
of_two("minimum", minimum)
pointwise("clip", clip)

of_two("equal", lambda a, b: a.equal(b))
of_two("not_equal", lambda a, b: a.not_equal(b))
of_two("less", lambda a, b: a < b)
of_two("less_equal", lambda a, b: a <= b)
of_two("greater", lambda a, b: a > b)
of_two("greater_equal", lambda a, b: a >= b)

of_two("logical_and", lambda a, b: a & b)
of_two("logical_or", lambda a, b: a | b)
of_one("logical_not", lambda a: ~a)

of_one("neg", lambda x: -x)
of_one("abs", absolute)
of_one("sign", sign)
of_one("square", lambda x: x * x)
of_one("sqrt", sqrt, FLOAT_DTYPES)
of_one("exp", math.exp, FLOAT_DTYPES)
of_one("log", math.log, FLOAT_DTYPES)
of_one("sin", math.sin, FLOAT_DTYPES)
of_one("cos", math.cos, FLOAT_DTYPES)
of_one("tanh", math.tanh, FLOAT_DTYPES)
of_one("relu", lambda x: maximum(x, 0.0), FLOAT_DTYPES)
of_one("sigmoid", math.sigmoid, FLOAT_DTYPES)
pointwise("where", where, ALL_DTYPES)
pointwise("lerp", lerp, FLOAT_DTYPES)

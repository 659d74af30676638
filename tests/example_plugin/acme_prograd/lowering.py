"""Lowering rules of the operators, for the native engine."""

from __future__ import annotations

from runtime.codegen import math
from runtime.codegen.ir import Value
from runtime.codegen.rules.rule import pointwise


def swish(x: Value, *, beta: float) -> Value:
    """Return x / (1 + exp(-beta * x))."""
    return x / (math.exp(x * -beta) + 1.0)


pointwise("acme.swish", swish, {"float32", "float64"})

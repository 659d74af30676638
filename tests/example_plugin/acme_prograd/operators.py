"""Declarations of the operators, for the compiler."""

from __future__ import annotations

from prograd_proto import TensorType
from registry import Value, op, ops, require


@op(namespace="acme")
def swish(x: Value, *, beta: float = 1.0) -> TensorType:
    """The product x * sigmoid(beta * x): Ramachandran et al., 2017."""
    require(x.dtype in ("float32", "float64"), f"x is {x.dtype}, not float32 or float64")
    return x.type


@swish.gradient
def swish_gradient(x: Value, y: Value, dy: Value, *, beta: float) -> Value:
    share = ops.sigmoid(x * beta)
    return dy * (share + beta * y * (1.0 - share))

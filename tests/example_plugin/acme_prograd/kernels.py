"""Kernels of the operators, for the runtime."""

from __future__ import annotations

from math import prod

import numpy as np

from prograd_proto import TensorType
from runtime.kernel import Array, kernel, require
from runtime.row_rules import pointwise


def swish_rule(x: TensorType, *, beta: float) -> TensorType:
    """Return the type of x."""
    require(x.dtype in ("float32", "float64"), f"x is {x}, which swish does not take")
    return x


def swish_scratch(x: TensorType) -> list[TensorType]:
    """Return one array like x."""
    return [x]


def swish_operations(x: TensorType) -> int:
    """Count a product, an exponential, a sum and a quotient for each element."""
    return 4 * prod(x.static_shape)


@kernel(swish_rule, scratch=swish_scratch, namespace="acme", rows=pointwise, operations=swish_operations)
def swish(x: Array, *, beta: float, out: Array, scratch: list[Array]) -> None:
    """Compute x / (1 + exp(-beta * x))."""
    [below] = scratch
    np.multiply(x, -beta, below)
    np.exp(below, below)
    np.add(below, 1, below)
    np.divide(x, below, out)

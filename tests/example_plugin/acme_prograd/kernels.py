"""How the operators are computed: for the runtime."""

from __future__ import annotations

import numpy as np

from prograd_proto import TensorType
from runtime.kernel import Array, Types, kernel, require, types


def swish_rule(x: TensorType, *, beta: float) -> Types:
    """Of x's type, with scratch of its size."""
    require(x.dtype in ("float32", "float64"), f"x is {x}, which swish does not take")
    return types(x, scratch=[x])


@kernel(swish_rule, namespace="acme")
def swish(x: Array, *, beta: float, out: Array, scratch: list[Array]) -> None:
    """x / (1 + exp(-beta * x))."""
    [below] = scratch
    np.multiply(x, -beta, below)
    np.exp(below, below)
    np.add(below, 1, below)
    np.divide(x, below, out)

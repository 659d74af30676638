"""Softmax, log_softmax and batch normalisation."""

from __future__ import annotations

from math import prod

from runtime.codegen import math
from runtime.codegen.ir import Value
from runtime.codegen.ir.words import sqrt
from runtime.codegen.rules.decomposition import DecompositionBuilder, SymbolicTensor, difference, product
from runtime.codegen.rules.rule import RULES, Decomposition


def softmax(c: DecompositionBuilder, x: SymbolicTensor, *, axis: int) -> SymbolicTensor:
    """Return exponentials of distances from the maximum, divided by their sum."""
    powers = c.elementwise(math.exp, c.elementwise(difference, x, c.reduce("max", x, (axis,))))
    return c.elementwise(product, powers, c.elementwise(inverse, c.reduce("sum", powers, (axis,))))


def log_softmax(c: DecompositionBuilder, x: SymbolicTensor, *, axis: int) -> SymbolicTensor:
    """Return distances from the maximum, less the logarithm of the sum of their exponentials."""
    far = c.elementwise(difference, x, c.reduce("max", x, (axis,)))
    return c.elementwise(
        difference, far, c.elementwise(math.log, c.reduce("sum", c.elementwise(math.exp, far), (axis,)))
    )


def batch_norm(
    c: DecompositionBuilder,
    x: SymbolicTensor,
    scale: SymbolicTensor,
    bias: SymbolicTensor,
    running_mean: SymbolicTensor,
    running_variance: SymbolicTensor,
    *,
    momentum: float,
    epsilon: float,
) -> tuple[SymbolicTensor, ...]:
    """Normalise by statistics of one pass, or of two with one channel; another pass may be fused with later ops."""
    axes = range(x.type.rank - 1)
    if x.type.static_shape[-1] > 1 and prod(x.type.static_shape[:-1]) > 1:
        mean, variance = c.moments(x, axes)
    else:
        mean = c.mean(x, axes, keepdims=False)
        variance = c.mean(c.elementwise(square_of_difference, x, mean), axes, keepdims=False)
    root = c.elementwise(inverse_root, variance, epsilon=epsilon)
    y = c.elementwise(normalised, x, mean, root, scale, bias)
    new_mean = c.elementwise(blended, running_mean, mean, momentum=momentum)
    new_variance = c.elementwise(blended, running_variance, variance, momentum=momentum)
    return y, new_mean, new_variance, mean, root


def inverse(x: Value) -> Value:
    """Return the reciprocal."""
    return 1 / x


def inverse_root(square: Value, *, epsilon: float) -> Value:
    """Return the reciprocal of the root of square + epsilon."""
    return 1 / sqrt(square + epsilon)


def square_of_difference(x: Value, y: Value) -> Value:
    """Return the square of the difference."""
    far = x - y
    return far * far


def normalised(x: Value, mean: Value, root: Value, scale: Value | None = None, bias: Value | None = None) -> Value:
    """Return the distance from the mean in deviations, scaled and shifted."""
    y = (x - mean) * (root if scale is None else root * scale)
    return y if bias is None else y + bias


def blended(running: Value, batch: Value, *, momentum: float) -> Value:
    """Return the running statistic, updated by that of the batch."""
    return running * momentum + batch * (1 - momentum)


RULES["softmax"] = Decomposition(softmax)
RULES["log_softmax"] = Decomposition(log_softmax)
RULES["batch_norm"] = Decomposition(batch_norm)

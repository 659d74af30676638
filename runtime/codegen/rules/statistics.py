"""Logarithms of sums of exponentials, variances, deviations and norms."""

from __future__ import annotations

from math import inf, prod

from runtime.codegen import math
from runtime.codegen.ir import Value
from runtime.codegen.ir.words import absolute, sqrt, where
from runtime.codegen.rules.decomposition import DecompositionBuilder, SymbolicTensor, difference, squared, total
from runtime.codegen.rules.norm import square_of_difference
from runtime.codegen.rules.rule import RULES, Decomposition


def logsumexp(c: DecompositionBuilder, x: SymbolicTensor, *, axes: tuple[int, ...], keepdims: bool) -> SymbolicTensor:
    """Return log(sum(exp(x - m))) + m, where m is the maximum of x, or 0 if that is infinite."""
    along = axes or range(x.type.rank)
    most = c.elementwise(if_finite, c.reduce("max", x, along))
    powers = c.elementwise(math.exp, c.elementwise(difference, x, most))
    return c.elementwise(total, c.elementwise(math.log, c.reduce("sum", powers, along)), most)


def variance(
    c: DecompositionBuilder, x: SymbolicTensor, *, axes: tuple[int, ...], correction: float, keepdims: bool
) -> SymbolicTensor:
    """Return the sum of squared distances from the mean, divided by max(count - correction, 0)."""
    along = axes or range(x.type.rank)
    count = prod(x.type.static_shape[axis] for axis in along)
    squares = c.reduce("sum", c.elementwise(square_of_difference, x, c.mean(x, along)), along)
    return c.elementwise(divided, squares, by=float(max(count - correction, 0)))


def standard_deviation(c: DecompositionBuilder, x: SymbolicTensor, **attributes: object) -> SymbolicTensor:
    """Return the root of the variance."""
    return c.elementwise(sqrt, variance(c, x, **attributes))  # pyright: ignore[reportArgumentType]: those of variance


def norm(
    c: DecompositionBuilder, x: SymbolicTensor, *, ord: float, axes: tuple[int, ...], keepdims: bool
) -> SymbolicTensor:
    """Return the norm of the given order."""
    along = axes or range(x.type.rank)
    if ord == 2:
        return c.elementwise(sqrt, c.reduce("sum", c.elementwise(squared, x), along))
    sizes = c.elementwise(absolute, x)
    if abs(ord) == inf:
        return c.reduce("max" if ord > 0 else "min", sizes, along)
    if ord == 1:
        return c.reduce("sum", sizes, along)
    if ord == 0:
        return c.reduce("sum", c.elementwise(counts, sizes), along)
    return c.elementwise(power, c.reduce("sum", c.elementwise(power, sizes, by=float(ord)), along), by=1 / ord)


def if_finite(x: Value) -> Value:
    """Return the number, or 0 if it is infinite."""
    return where(absolute(x).equal(inf), 0.0, x)


def divided(x: Value, *, by: float) -> Value:
    """Divide by a number that may be 0."""
    return x / by


def counts(x: Value) -> Value:
    """Return 1 for numbers that are not 0; NaN stays."""
    return where(x > 0, 1.0, x)


def power(x: Value, *, by: float) -> Value:
    """Raise to a constant power."""
    return math.pow(x, x.like(by))


RULES["logsumexp"] = Decomposition(logsumexp)
RULES["variance"] = Decomposition(variance)
RULES["standard_deviation"] = Decomposition(standard_deviation)
RULES["norm"] = Decomposition(norm)

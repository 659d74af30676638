"""Logarithms of sums of powers, variances, deviations and norms."""

from __future__ import annotations

from math import inf, prod

from runtime.codegen import math
from runtime.codegen.ir import Value
from runtime.codegen.ir.words import absolute, sqrt, where
from runtime.codegen.rules.composition import Composition, Part, difference, squared, total
from runtime.codegen.rules.form import FORMS, Composite
from runtime.codegen.rules.norm import square_of_difference


def logsumexp(c: Composition, x: Part, *, axes: tuple[int, ...], keepdims: bool) -> Part:
    """By the distance from the largest, or from 0 where that is infinite."""
    along = axes or range(x.type.rank)
    most = c.each(if_finite, c.join("max", x, along))
    powers = c.each(math.exp, c.each(difference, x, most))
    return c.each(total, c.each(math.log, c.join("sum", powers, along)), most)


def variance(c: Composition, x: Part, *, axes: tuple[int, ...], correction: float, keepdims: bool) -> Part:
    """The sum of squares of distances from the mean, over their number less the correction."""
    along = axes or range(x.type.rank)
    count = prod(x.type.static_shape[axis] for axis in along)
    squares = c.join("sum", c.each(square_of_difference, x, c.mean(x, along)), along)
    return c.each(divided, squares, by=float(max(count - correction, 0)))


def standard_deviation(c: Composition, x: Part, **attributes: object) -> Part:
    """Its root."""
    return c.each(sqrt, variance(c, x, **attributes))  # pyright: ignore[reportArgumentType]: those of variance


def norm(c: Composition, x: Part, *, ord: float, axes: tuple[int, ...], keepdims: bool) -> Part:
    """By the rule of its order."""
    along = axes or range(x.type.rank)
    if ord == 2:
        return c.each(sqrt, c.join("sum", c.each(squared, x), along))
    sizes = c.each(absolute, x)
    if abs(ord) == inf:
        return c.join("max" if ord > 0 else "min", sizes, along)
    if ord == 1:
        return c.join("sum", sizes, along)
    if ord == 0:
        return c.join("sum", c.each(counts, sizes), along)
    return c.each(power, c.join("sum", c.each(power, sizes, by=float(ord)), along), by=1 / ord)


def if_finite(x: Value) -> Value:
    """0 for what is infinite."""
    return where(absolute(x).equal(inf), 0.0, x)


def divided(x: Value, *, by: float) -> Value:
    """By a number that may be 0."""
    return x / by


def counts(x: Value) -> Value:
    """1 for what is not 0; NaN counts as NaN."""
    return where(x > 0, 1.0, x)


def power(x: Value, *, by: float) -> Value:
    """To a known power."""
    return math.pow(x, x.like(by))


FORMS["logsumexp"] = Composite(logsumexp)
FORMS["variance"] = Composite(variance)
FORMS["standard_deviation"] = Composite(standard_deviation)
FORMS["norm"] = Composite(norm)

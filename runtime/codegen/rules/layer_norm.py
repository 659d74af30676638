"""Layer, RMS and group normalisation."""

from __future__ import annotations

from math import prod

from runtime.codegen.ir import Value
from runtime.codegen.rules.composition import Composition, Part, product, squared
from runtime.codegen.rules.form import FORMS, Composite
from runtime.codegen.rules.norm import inverse_root, normalised, square_of_difference


def layer_norm(
    c: Composition, x: Part, scale: Part | None = None, bias: Part | None = None, *, axis: int, epsilon: float
) -> tuple[Part, ...]:
    """Each row by its own mean and deviation."""
    return standardised(c, x, range(axis % x.type.rank, x.type.rank), scale, bias, epsilon)


def rms_norm(c: Composition, x: Part, scale: Part | None = None, *, axis: int, epsilon: float) -> tuple[Part, ...]:
    """Each row by the root of the mean of its squares."""
    axes = range(axis % x.type.rank, x.type.rank)
    root = c.each(inverse_root, c.mean(c.each(squared, x), axes), epsilon=epsilon)
    y = c.each(product, x, root) if scale is None else c.each(scaled, x, root, scale)
    return y, root


def group_norm(
    c: Composition,
    x: Part,
    scale: Part | None = None,
    bias: Part | None = None,
    *,
    groups: int,
    epsilon: float,
) -> tuple[Part, ...]:
    """The channels of a group at all places of an image by their mean and deviation."""
    n, *places, channels = x.type.static_shape
    by_group = c.view(x, (n, prod(places), groups, channels // groups))
    scale, bias = (p and c.view(p, (groups, channels // groups)) for p in (scale, bias))
    y, mean, root = standardised(c, by_group, (1, 3), scale, bias, epsilon)
    return y, mean, root


def standardised(
    c: Composition, x: Part, axes: range | tuple[int, ...], scale: Part | None, bias: Part | None, epsilon: float
) -> tuple[Part, Part, Part]:
    """By mean and deviation along axes."""
    mean = c.mean(x, axes)
    root = c.each(inverse_root, c.mean(c.each(square_of_difference, x, mean), axes), epsilon=epsilon)
    more = [p for p in (scale, bias) if p is not None]
    expression = moved if scale is None and bias is not None else normalised
    return c.each(expression, x, mean, root, *more), mean, root


def moved(x: Value, mean: Value, root: Value, bias: Value) -> Value:
    """Normalised without a scale."""
    return normalised(x, mean, root, bias=bias)


def scaled(x: Value, root: Value, scale: Value) -> Value:
    """By the row's factor and the column's."""
    return x * (root * scale)


FORMS["layer_norm"] = Composite(layer_norm)
FORMS["rms_norm"] = Composite(rms_norm)
FORMS["group_norm"] = Composite(group_norm)

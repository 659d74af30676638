"""Layer, RMS and group normalisation."""

from __future__ import annotations

from math import prod

from runtime.codegen.ir import Value
from runtime.codegen.ir.words import maximum, where
from runtime.codegen.rules.decomposition import DecompositionBuilder, SymbolicTensor, difference, product, squared
from runtime.codegen.rules.norm import inverse_root, normalised, square_of_difference
from runtime.codegen.rules.rule import RULES, Decomposition


def layer_norm(
    c: DecompositionBuilder,
    x: SymbolicTensor,
    scale: SymbolicTensor | None = None,
    bias: SymbolicTensor | None = None,
    *,
    axis: int,
    epsilon: float,
) -> tuple[SymbolicTensor, ...]:
    """Normalise each row by its own mean and deviation."""
    return standardised(c, x, range(axis % x.type.rank, x.type.rank), scale, bias, epsilon)


def rms_norm(
    c: DecompositionBuilder, x: SymbolicTensor, scale: SymbolicTensor | None = None, *, axis: int, epsilon: float
) -> tuple[SymbolicTensor, ...]:
    """Divide each row by the root of the mean of its squares."""
    axes = range(axis % x.type.rank, x.type.rank)
    root = c.elementwise(inverse_root, c.mean(c.elementwise(squared, x), axes), epsilon=epsilon)
    y = c.elementwise(product, x, root) if scale is None else c.elementwise(scaled, x, root, scale)
    return y, root


def group_norm(
    c: DecompositionBuilder,
    x: SymbolicTensor,
    scale: SymbolicTensor | None = None,
    bias: SymbolicTensor | None = None,
    *,
    groups: int,
    epsilon: float,
) -> tuple[SymbolicTensor, ...]:
    """Normalise the channels of a group, at all pixels of an image, by their mean and deviation."""
    n, *indices, channels = x.type.static_shape
    by_group = c.view(x, (n, prod(indices), groups, channels // groups))
    scale, bias = (p and c.view(p, (groups, channels // groups)) for p in (scale, bias))
    y, mean, root = standardised(c, by_group, (1, 3), scale, bias, epsilon)
    return y, mean, root


def standardised(
    c: DecompositionBuilder,
    x: SymbolicTensor,
    axes: range | tuple[int, ...],
    scale: SymbolicTensor | None,
    bias: SymbolicTensor | None,
    epsilon: float,
) -> tuple[SymbolicTensor, SymbolicTensor, SymbolicTensor]:
    """Normalise by mean and deviation along axes.

    The mean of equal large numbers is rounded, and normalising what it leaves of them would give 1 in place of 0. Where
    the rest is as large as the deviation, it is added to the mean; all other rows keep their bits.
    """
    rounded = c.mean(x, axes)
    variance = c.mean(c.elementwise(square_of_difference, x, rounded), axes)
    rest = c.mean(c.elementwise(difference, x, rounded), axes)
    mean = c.elementwise(exact_mean, rounded, rest, variance)
    root = c.elementwise(root_about_exact_mean, variance, rest, epsilon=epsilon)
    more = [p for p in (scale, bias) if p is not None]
    expression = (moved if scale is None else scaled_and_moved) if more else normalised
    return c.elementwise(expression, x, mean, root, *more), mean, root


def exact_mean(mean: Value, rest: Value, variance: Value) -> Value:
    """Return the mean with what rounding left of it, if that is as large as the deviation."""
    return where(rest * rest * 2 > variance, mean + rest, mean)


def root_about_exact_mean(variance: Value, rest: Value, *, epsilon: float) -> Value:
    """Return the reciprocal deviation from `exact_mean`."""
    square = rest * rest
    return inverse_root(where(square * 2 > variance, maximum(variance - square, 0.0), variance), epsilon=epsilon)


def moved(x: Value, mean: Value, root: Value, bias: Value) -> Value:
    """Return normalised elements without a scale."""
    return normalised(x, mean, root, bias=bias)


def scaled_and_moved(x: Value, mean: Value, root: Value, scale: Value, bias: Value | None = None) -> Value:
    """Return normalised elements with a scale of each column.

    Elements are normalised first: a product of the scale and the reciprocal deviation may overflow where the result
    does not.
    """
    y = normalised(x, mean, root) * scale
    return y if bias is None else y + bias


def scaled(x: Value, root: Value, scale: Value) -> Value:
    """Multiply by the factor of the row, and then by the scale of the column."""
    return x * root * scale


RULES["layer_norm"] = Decomposition(layer_norm)
RULES["rms_norm"] = Decomposition(rms_norm)
RULES["group_norm"] = Decomposition(group_norm)

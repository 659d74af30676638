"""Layer, RMS and group normalisation."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from runtime.codegen.ir import Value
from runtime.codegen.ir.words import maximum, where
from runtime.codegen.machine import NOMINAL_LANES
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
    axes = range(axis % x.type.rank, x.type.rank)
    return standardised(c, x, lambda part: c.mean(part, axes), lambda of_row: of_row, scale, bias, epsilon)


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
    """Normalise the channels of a group, at all pixels of an image, by their mean and deviation.

    If a group has few channels, pixels are added channel by channel first, and what a group has is given to its
    channels: loops over pixels then are along all channels.
    """
    n, *indices, channels = x.type.static_shape
    if channels // groups >= NOMINAL_LANES:
        scale, bias = (p and c.view(p, (groups, channels // groups)) for p in (scale, bias))
        by_group = c.view(x, (n, prod(indices), groups, channels // groups))
        return standardised(
            c, by_group, lambda part: c.mean(part, (1, 3)), lambda of_group: of_group, scale, bias, epsilon
        )
    by_group = (n, 1, groups, channels // groups)
    of_channels = c.view(c.mean(c.view(x, (n, prod(indices), channels)), (1,)), by_group)

    def mean(part: SymbolicTensor) -> SymbolicTensor:
        return c.mean(c.view(c.mean(part, (1,)), by_group), (3,))

    def spread(of_group: SymbolicTensor) -> SymbolicTensor:
        return c.view(c.elementwise(first, of_group, of_channels), (n, 1, channels))

    return standardised(c, c.view(x, (n, prod(indices), channels)), mean, spread, scale, bias, epsilon)


def standardised(
    c: DecompositionBuilder,
    x: SymbolicTensor,
    mean_of: Callable[[SymbolicTensor], SymbolicTensor],
    spread: Callable[[SymbolicTensor], SymbolicTensor],
    scale: SymbolicTensor | None,
    bias: SymbolicTensor | None,
    epsilon: float,
) -> tuple[SymbolicTensor, SymbolicTensor, SymbolicTensor]:
    """Normalise by means and deviations, which `mean_of` computes and `spread` gives to the elements of each.

    The mean of equal large numbers is rounded, and normalising what it leaves of them would give 1 in place of 0. Where
    the rest is as large as the deviation, it is added to the mean; all other rows keep their bits.
    """
    rounded = mean_of(x)
    variance = mean_of(c.elementwise(square_of_difference, x, spread(rounded)))
    rest = mean_of(c.elementwise(difference, x, spread(rounded)))
    mean = c.elementwise(exact_mean, rounded, rest, variance)
    root = c.elementwise(root_about_exact_mean, variance, rest, epsilon=epsilon)
    more = [p for p in (scale, bias) if p is not None]
    expression = (moved if scale is None else scaled_and_moved) if more else normalised
    return c.elementwise(expression, x, spread(mean), spread(root), *more), mean, root


def first(x: Value, of: Value) -> Value:
    """Return the first operand, for each element of the second."""
    del of
    return x


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

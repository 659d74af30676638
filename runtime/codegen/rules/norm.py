"""Softmax, log_softmax and batch normalisation."""

from __future__ import annotations

from runtime.codegen import math
from runtime.codegen.ir import Value
from runtime.codegen.ir.words import sqrt
from runtime.codegen.rules.composition import Composition, Part, difference, product
from runtime.codegen.rules.form import FORMS, Composite


def softmax(c: Composition, x: Part, *, axis: int) -> Part:
    """Powers of the distance from the largest, over their sum."""
    powers = c.each(math.exp, c.each(difference, x, c.join("max", x, (axis,))))
    return c.each(product, powers, c.each(inverse, c.join("sum", powers, (axis,))))


def log_softmax(c: Composition, x: Part, *, axis: int) -> Part:
    """That distance, less the logarithm of the sum of powers."""
    far = c.each(difference, x, c.join("max", x, (axis,)))
    return c.each(difference, far, c.each(math.log, c.join("sum", c.each(math.exp, far), (axis,))))


def batch_norm(
    c: Composition,
    x: Part,
    scale: Part,
    bias: Part,
    running_mean: Part,
    running_variance: Part,
    *,
    momentum: float,
    epsilon: float,
) -> tuple[Part, ...]:
    """Two passes for the statistics, and one that may go on with what follows."""
    axes = range(x.type.rank - 1)
    mean = c.mean(x, axes, keepdims=False)
    variance = c.mean(c.each(square_of_difference, x, mean), axes, keepdims=False)
    root = c.each(inverse_root, variance, epsilon=epsilon)
    y = c.each(normalised, x, mean, root, scale, bias)
    new_mean = c.each(blended, running_mean, mean, momentum=momentum)
    new_variance = c.each(blended, running_variance, variance, momentum=momentum)
    return y, new_mean, new_variance, mean, root


def inverse(x: Value) -> Value:
    """One over it."""
    return 1 / x


def inverse_root(square: Value, *, epsilon: float) -> Value:
    """One over the root, a little more than the square under it."""
    return 1 / sqrt(square + epsilon)


def square_of_difference(x: Value, y: Value) -> Value:
    """Of the distance of both."""
    far = x - y
    return far * far


def normalised(x: Value, mean: Value, root: Value, scale: Value | None = None, bias: Value | None = None) -> Value:
    """In deviations from the mean, then scaled and moved."""
    y = (x - mean) * (root if scale is None else root * scale)
    return y if bias is None else y + bias


def blended(running: Value, batch: Value, *, momentum: float) -> Value:
    """The running statistic, with the batch's share in it."""
    return running * momentum + batch * (1 - momentum)


FORMS["softmax"] = Composite(softmax)
FORMS["log_softmax"] = Composite(log_softmax)
FORMS["batch_norm"] = Composite(batch_norm)

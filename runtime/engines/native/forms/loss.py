"""Losses."""

from __future__ import annotations

from runtime.engines.native import math
from runtime.engines.native.forms.composition import Composition, Part, same
from runtime.engines.native.forms.form import FLOATS, FORMS, Composite, pointwise
from runtime.engines.native.forms.norm import square_of_difference
from runtime.engines.native.ir import Value
from runtime.engines.native.ir.words import absolute, maximum, where


def squared_error(c: Composition, prediction: Part, target: Part, *, reduction: str) -> Part:
    """The square of the distance, and what becomes of all of them."""
    return reduced(c, c.each(square_of_difference, prediction, target), reduction)


def sigmoid_cross_entropy(x: Value, target: Value, weights: Value | None = None) -> Value:
    """With c = log(1 + exp(-|x|)): (1 - t) * (max(x, 0) + c) + t * (max(-x, 0) + c), where infinity times 0 is 0."""
    curve = math.log1p(math.exp(-absolute(x)))
    rest = 1 - target
    no = where(rest.equal(0), 0.0, maximum(x, 0.0))
    yes = where(target.equal(0), 0.0, maximum(-x, 0.0))
    if weights is None:
        return no * rest + yes * target + curve
    return (no + curve) * rest + (yes + curve) * weights * target


def reduced(c: Composition, losses: Part, reduction: str) -> Part:
    """All losses, their sum or their mean."""
    if reduction == "none" or not losses.type.rank:
        return c.each(same, losses)
    return c.join(reduction, losses, range(losses.type.rank))


pointwise("sigmoid_cross_entropy", sigmoid_cross_entropy, FLOATS)
FORMS["squared_error"] = Composite(squared_error)

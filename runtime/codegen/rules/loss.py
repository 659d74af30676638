"""Losses and accuracy."""

from __future__ import annotations

from runtime.codegen import math
from runtime.codegen.ir import FLOAT32, INT64, Value
from runtime.codegen.ir.words import absolute, convert, maximum, where
from runtime.codegen.kernels.places import Places
from runtime.codegen.rules.composition import Composition, Part, difference
from runtime.codegen.rules.form import ALL, FLOATS, FORMS, Composite, Pointwise, pointwise
from runtime.codegen.rules.named import named
from runtime.codegen.rules.norm import square_of_difference
from runtime.codegen.rules.order import first_place

WHOLE = frozenset({"int32", "int64"})
"""Of labels."""


def softmax_cross_entropy(c: Composition, logits: Part, labels: Part, *, reduction: str) -> Part:
    """The logarithm of the sum of powers of distances from the largest, less that of the label."""
    last = (logits.type.rank - 1,)
    label = named(c, labels, logits.type.static_shape[-1])
    far = c.each(difference, logits, c.join("max", logits, last))
    chosen = c.of(Pointwise(chosen_at, ALL, places={"place": -1}), far, label)
    sums = c.join("sum", c.each(math.exp, far), last)
    losses = c.each(difference, c.each(math.log, sums), c.join("sum", chosen, last))
    return reduced(c, losses, reduction)


def accuracy(c: Composition, logits: Part, labels: Part) -> Part:
    """The share of rows whose first largest logit is the label's."""
    label = c.view(labels, (*labels.type.static_shape, 1))
    right = c.each(is_same, first_place(c, logits, "max", -1), label, dtype="float32")
    return c.mean(right, range(right.type.rank))


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


def chosen_at(x: Value, label: Value, *, place: Places) -> Value:
    """The element at the place of the label, 0 for others."""
    return where(place.numbers().equal(label), x, 0.0)


def is_same(place: Value, label: Value) -> Value:
    """1 where both are the same place."""
    return convert(convert(place, INT64).equal(convert(label, INT64)), FLOAT32)


def reduced(c: Composition, losses: Part, reduction: str) -> Part:
    """All losses, their sum or their mean."""
    if reduction == "none":
        return losses
    return c.join(reduction, losses, range(losses.type.rank))


pointwise("sigmoid_cross_entropy", sigmoid_cross_entropy, FLOATS)
FORMS["softmax_cross_entropy"] = Composite(softmax_cross_entropy, FLOATS | WHOLE)
FORMS["accuracy"] = Composite(accuracy, FLOATS | WHOLE)
FORMS["squared_error"] = Composite(squared_error)

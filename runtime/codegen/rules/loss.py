"""Losses and accuracy."""

from __future__ import annotations

from runtime.codegen import math
from runtime.codegen.ir import FLOAT32, INT64, Value
from runtime.codegen.ir.words import absolute, convert, maximum, where
from runtime.codegen.kernels.indices import Indices
from runtime.codegen.rules.decomposition import DecompositionBuilder, SymbolicTensor, difference
from runtime.codegen.rules.norm import square_of_difference
from runtime.codegen.rules.one_hot import named
from runtime.codegen.rules.order import first_place_of
from runtime.codegen.rules.rule import COMPUTED_DTYPES, FLOAT_DTYPES, RULES, Decomposition, Pointwise, pointwise

WHOLE = frozenset({"int32", "int64"})
"""The dtypes of labels."""


def softmax_cross_entropy(
    c: DecompositionBuilder, logits: SymbolicTensor, labels: SymbolicTensor, *, reduction: str
) -> SymbolicTensor:
    """Return log(sum(exp(far))) - far[label], where far is the logits less their maximum."""
    last = (logits.type.rank - 1,)
    label = named(c, labels, logits.type.static_shape[-1])
    far = c.elementwise(difference, logits, c.reduce("max", logits, last))
    chosen = c.of(Pointwise(chosen_at, COMPUTED_DTYPES, indices={"index": -1}), far, label)
    sums = c.reduce("sum", c.elementwise(math.exp, far), last)
    losses = c.elementwise(difference, c.elementwise(math.log, sums), c.reduce("sum", chosen, last))
    return reduced(c, losses, reduction)


def accuracy(c: DecompositionBuilder, logits: SymbolicTensor, labels: SymbolicTensor) -> SymbolicTensor:
    """Return the share of rows without NaN whose first maximum is at the label."""
    label, last = c.view(labels, (*labels.type.static_shape, 1)), logits.type.rank - 1
    highest = c.reduce("max", logits, (last,))
    found = first_place_of(c, logits, highest, last)
    right = c.elementwise(is_right, found, label, highest, dtype="float32")
    return c.mean(right, range(right.type.rank))


def squared_error(
    c: DecompositionBuilder, prediction: SymbolicTensor, target: SymbolicTensor, *, reduction: str
) -> SymbolicTensor:
    """Return squared differences, reduced."""
    return reduced(c, c.elementwise(square_of_difference, prediction, target), reduction)


def sigmoid_cross_entropy(x: Value, target: Value, weights: Value | None) -> Value:
    """Return (1 - t) * (max(x, 0) + c) + t * (max(-x, 0) + c) with c = log(1 + exp(-|x|)), where infinity * 0 is 0."""
    curve = math.log1p(math.exp(-absolute(x)))
    rest = 1 - target
    no = where(rest.equal(0), 0.0, maximum(x, 0.0))
    yes = where(target.equal(0), 0.0, maximum(-x, 0.0))
    if weights is None:
        return no * rest + yes * target + curve
    return (no + curve) * rest + (yes + curve) * weights * target


def chosen_at(x: Value, label: Value, *, index: Indices) -> Value:
    """Return the element at the label's index, 0 elsewhere."""
    return where(index.values().equal(label), x, 0.0)


def is_right(index: Value, label: Value, highest: Value) -> Value:
    """Return 1 where both indices are equal and the largest score is no NaN."""
    return convert(convert(index, INT64).equal(convert(label, INT64)) & highest.equal(highest), FLOAT32)


def reduced(c: DecompositionBuilder, losses: SymbolicTensor, reduction: str) -> SymbolicTensor:
    """Return all losses, their sum or their mean."""
    if reduction == "none":
        return losses
    return c.reduce(reduction, losses, range(losses.type.rank))


pointwise("sigmoid_cross_entropy", sigmoid_cross_entropy, FLOAT_DTYPES)
RULES["softmax_cross_entropy"] = Decomposition(softmax_cross_entropy, FLOAT_DTYPES | WHOLE)
RULES["accuracy"] = Decomposition(accuracy, FLOAT_DTYPES | WHOLE)
RULES["squared_error"] = Decomposition(squared_error)

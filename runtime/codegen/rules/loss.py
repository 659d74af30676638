"""Losses and accuracy."""

from __future__ import annotations

from runtime.codegen import math
from runtime.codegen.ir import FLOAT32, INT64, Value
from runtime.codegen.ir.words import absolute, convert, maximum, where
from runtime.codegen.kernels.indices import Indices
from runtime.codegen.rules.decomposition import DecompositionBuilder, SymbolicTensor, difference
from runtime.codegen.rules.norm import square_of_difference
from runtime.codegen.rules.one_hot import named
from runtime.codegen.rules.order import first_place
from runtime.codegen.rules.rule import COMPUTED_DTYPES, FLOAT_DTYPES, RULES, Decomposition, Pointwise, pointwise

WHOLE = frozenset({"int32", "int64"})
"""Of labels."""


def softmax_cross_entropy(
    c: DecompositionBuilder, logits: SymbolicTensor, labels: SymbolicTensor, *, reduction: str
) -> SymbolicTensor:
    """The logarithm of the sum of powers of distances from the largest, less that of the label."""
    last = (logits.type.rank - 1,)
    label = named(c, labels, logits.type.static_shape[-1])
    far = c.elementwise(difference, logits, c.reduce("max", logits, last))
    chosen = c.of(Pointwise(chosen_at, COMPUTED_DTYPES, indices={"index": -1}), far, label)
    sums = c.reduce("sum", c.elementwise(math.exp, far), last)
    losses = c.elementwise(difference, c.elementwise(math.log, sums), c.reduce("sum", chosen, last))
    return reduced(c, losses, reduction)


def accuracy(c: DecompositionBuilder, logits: SymbolicTensor, labels: SymbolicTensor) -> SymbolicTensor:
    """The share of rows whose first largest logit is the label's."""
    label = c.view(labels, (*labels.type.static_shape, 1))
    right = c.elementwise(is_same, first_place(c, logits, "max", -1), label, dtype="float32")
    return c.mean(right, range(right.type.rank))


def squared_error(
    c: DecompositionBuilder, prediction: SymbolicTensor, target: SymbolicTensor, *, reduction: str
) -> SymbolicTensor:
    """The square of the distance, and what becomes of all of them."""
    return reduced(c, c.elementwise(square_of_difference, prediction, target), reduction)


def sigmoid_cross_entropy(x: Value, target: Value, weights: Value | None = None) -> Value:
    """With c = log(1 + exp(-|x|)): (1 - t) * (max(x, 0) + c) + t * (max(-x, 0) + c), where infinity times 0 is 0."""
    curve = math.log1p(math.exp(-absolute(x)))
    rest = 1 - target
    no = where(rest.equal(0), 0.0, maximum(x, 0.0))
    yes = where(target.equal(0), 0.0, maximum(-x, 0.0))
    if weights is None:
        return no * rest + yes * target + curve
    return (no + curve) * rest + (yes + curve) * weights * target


def chosen_at(x: Value, label: Value, *, index: Indices) -> Value:
    """The element at the place of the label, 0 for others."""
    return where(index.values().equal(label), x, 0.0)


def is_same(index: Value, label: Value) -> Value:
    """1 where both are the same place."""
    return convert(convert(index, INT64).equal(convert(label, INT64)), FLOAT32)


def reduced(c: DecompositionBuilder, losses: SymbolicTensor, reduction: str) -> SymbolicTensor:
    """All losses, their sum or their mean."""
    if reduction == "none":
        return losses
    return c.reduce(reduction, losses, range(losses.type.rank))


pointwise("sigmoid_cross_entropy", sigmoid_cross_entropy, FLOAT_DTYPES)
RULES["softmax_cross_entropy"] = Decomposition(softmax_cross_entropy, FLOAT_DTYPES | WHOLE)
RULES["accuracy"] = Decomposition(accuracy, FLOAT_DTYPES | WHOLE)
RULES["squared_error"] = Decomposition(squared_error)

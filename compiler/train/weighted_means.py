"""Means with weighted terms: over steps they are weighted by the terms that count, not by rows.

A loss of labels, some of which are ignored or weighted, is the mean over those that count. The mean of such means
equals that of all labels only if each is weighted by the labels that count in it. A step without such labels has no
weight.
"""

from __future__ import annotations

import logging

from compiler.train.metrics.metric import Metric, quotient, summed
from registry import Value, ops

_log = logging.getLogger("prograd")


def warn_of_different_weights(loss: Value, accumulate: int) -> None:
    """Warn if the steps of one update count equally because no single weight of them is right."""
    found = sorted(weights_in(loss))
    if len(found) > 1:
        _log.warning(
            "minimize: accumulate=%d: %%%s has terms of different weights, %s, so its steps count equally, and an "
            "update is not that of one batch of all their rows; minimize(weight=...) states the weight of a step",
            *(accumulate, loss.name, " and ".join(f"%{name}" for name in found)),
        )


def weight_of(value: Value) -> Value | None:
    """Return the weight of the weighted mean in a value.

    None if there is no such mean, or if the weights of several differ.
    """
    found = weights_in(value)
    return value.block.value(found.pop()) if len(found) == 1 else None


def weights_in(value: Value) -> set[str]:
    """Return the names of the weights of the weighted means in a value."""
    weights = value.block.weights
    needed, found = {value.name}, set[str]()
    for op in reversed(value.block.desc.ops) if weights else ():
        reached = needed.intersection(op.outputs)
        noted = {weights[name] for name in reached if name in weights}
        found |= noted
        if reached and not noted:
            needed.update(op.inputs)
    return found


def weighted_mean(value: Value, weight: Value) -> Metric:
    """Return the mean over steps of a scalar, each weighted by another scalar; 0 if nothing counts."""
    wide = ops.cast(weight, dtype="float64")
    counted = ops.where(ops.equal(wide, 0.0), 0.0, ops.cast(value, dtype="float64") * wide)
    return summed({"sum": counted, "weight": wide}, quotient)

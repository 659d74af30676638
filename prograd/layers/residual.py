"""Residual connections and dropout."""

from __future__ import annotations

from collections.abc import Callable

from prograd import Value, ops
from prograd.layers.asked import layer
from prograd_proto.settings import Interval
from registry.settings import Number, require_within


@layer
def dropout(x: Value, rate: Number) -> Value:
    """Return x with elements set to 0 with probability `rate`, or x itself outside training. No states.

    A `rate` that is a setting may differ in each run: then random numbers are drawn and compared with it.
    """
    if isinstance(rate, Value):
        require_within("dropout: rate", rate, Interval(0.0, 1.0, without_most=True))
        return _dropout_by(x, rate)
    return x if rate == 0 else ops.dropout(x, rate=rate)


def _dropout_by(x: Value, rate: Value) -> Value:
    """Return dropout by a rate that is a tensor, composed of operators that also detect training."""
    one = x.block.constant("float32", 1.0)
    at_rest = ops.equal(ops.dropout(one, rate=0.5), 1.0)  # 0 or 2 in training, and unchanged elsewhere
    drawn = ops.uniform.on(x.block)(shape=x.shape, dtype="float32")
    return ops.where(at_rest, x, ops.where(drawn < rate, 0.0, x / (1.0 - rate)))


@layer
def residual(x: Value, layer: Callable[[Value], Value], *, rate: Number = 0.0) -> Value:
    """Return the sum of x and `layer(x)`, with dropout: He et al., 2016. No states of its own.

    x = layers.residual(x, lambda x: layers.dense(program, "more", x, 64))
    """
    return x + dropout(layer(x), rate)

"""Residual connections and dropout."""

from __future__ import annotations

from collections.abc import Callable

from prograd import Value, ops
from prograd.layers.asked import layer
from prograd_proto.settings import Interval
from registry.settings import Number, require_within


@layer
def dropout(x: Value, ratio: Number) -> Value:
    """Return x with elements set to 0 with probability `ratio`, or x itself outside training. No states.

    A `ratio` that is a setting may differ in each run: then random numbers are drawn and compared with it.
    """
    if isinstance(ratio, Value):
        require_within("dropout: ratio", ratio, Interval(0.0, 1.0, without_most=True))
        return _dropout_by(x, ratio)
    return x if ratio == 0 else ops.dropout(x, ratio=ratio)


def _dropout_by(x: Value, ratio: Value) -> Value:
    """Return dropout by a ratio that is a tensor, composed of operators that also detect training."""
    one = x.block.constant("float32", 1.0)
    at_rest = ops.equal(ops.dropout(one, ratio=0.5), 1.0)  # 0 or 2 in training, and unchanged elsewhere
    drawn = ops.uniform.on(x.block)(shape=x.shape, dtype="float32")
    return ops.where(at_rest, x, ops.where(drawn < ratio, 0.0, x / (1.0 - ratio)))


_dropout = dropout  # the name is an argument below


@layer
def residual(x: Value, layer: Callable[[Value], Value], *, dropout: Number = 0.0) -> Value:
    """Return the sum of x and `layer(x)`, with dropout: He et al., 2016. No states of its own.

    x = layers.residual(x, lambda x: layers.dense(x, "more", 64))
    """
    return x + _dropout(layer(x), dropout)

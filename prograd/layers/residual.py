"""Ways around a layer, and holes in what it gives."""

from __future__ import annotations

from collections.abc import Callable

from prograd import Value, ops
from prograd.layers.asked import layer
from prograd_proto.settings import Interval
from registry.settings import Number, require_within


@layer
def dropout(x: Value, rate: Number) -> Value:
    """Return the tensor x with elements set to 0 with probability `rate`, and x itself outside training. No states.

    A `rate` that is a setting may be another one in each run: then numbers are drawn and compared with it.
    """
    if isinstance(rate, Value):
        require_within("dropout: rate", rate, Interval(0.0, 1.0, without_most=True))
        return _dropout_by(x, rate)
    return x if rate == 0 else ops.dropout(x, rate=rate)


def _dropout_by(x: Value, rate: Value) -> Value:
    """Dropout by a rate that is a tensor: of operators, which also tell whether this is training."""
    one = x.block.constant("float32", 1.0)
    at_rest = ops.equal(ops.dropout(one, rate=0.5), 1.0)  # in training it is 0 or 2, and elsewhere what it was
    drawn = ops.uniform.on(x.block)(shape=x.shape, dtype="float32")
    return ops.where(at_rest, x, ops.where(drawn < rate, 0.0, x / (1.0 - rate)))


@layer
def residual(x: Value, layer: Callable[[Value], Value], *, rate: Number = 0.0) -> Value:
    """Return the sum of x and what a layer makes of it, with dropout: He et al., 2016. No states of its own.

    x = layers.residual(x, lambda x: layers.dense(program, "more", x, 64))
    """
    return x + dropout(layer(x), rate)

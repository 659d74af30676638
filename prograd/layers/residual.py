"""Ways around a layer, and holes in what it gives."""

from __future__ import annotations

from collections.abc import Callable

from prograd import Value, ops


def dropout(x: Value, rate: float) -> Value:
    """The tensor x with elements set to 0 with probability `rate`, and x itself outside training. No states."""
    return x if rate == 0 else ops.dropout(x, rate=rate)


def residual(x: Value, layer: Callable[[Value], Value], *, rate: float = 0.0) -> Value:
    """The sum of x and what a layer makes of it, with dropout: He et al., 2016. No states of its own.

    x = layers.residual(x, lambda x: layers.dense(program, "more", x, 64))
    """
    return x + dropout(layer(x), rate)

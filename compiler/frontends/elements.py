"""Casts of a model's tensors, and axes whose extents no shape can state."""

from __future__ import annotations

from compiler.frontends.arranged import Arranged, pointwise, viewed
from compiler.frontends.extents import factored
from registry import Value, ops


def cast_to(x: Arranged, dtype: str) -> Arranged:
    """Return x in another dtype."""

    def converted(v: Value) -> Value:
        return ops.cast(v, dtype=dtype)  # pyright: ignore[reportArgumentType]: a dtype

    return x if x.dtype == dtype else pointwise(converted, x)


def without_products(x: Arranged) -> Arranged:
    """Return x with two axes for each of 2 * batch elements, say, which no shape can state."""
    return viewed(x, [extent for own in factored(x.shape) for extent in own])

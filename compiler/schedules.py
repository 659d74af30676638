"""Learning rates as ops on the states `step` and `total_steps`."""

from __future__ import annotations

from collections.abc import Callable
from math import pi

from registry import Block, OpError, Value, ops

Schedule = Callable[[Block], Value]
"""Appends the ops of a rate to a block; the result is a rank-0 float64 tensor."""


def constant(rate: float) -> Schedule:
    """Always `rate`."""
    return lambda block: block.constant("float64", rate)


def warmup_cosine(peak: float, *, warmup: float = 0.1, final: float = 0.0) -> Schedule:
    """A linear rise to `peak`, then half a cosine down to `final`: Loshchilov and Hutter, 2017.

    Args:
        peak: the highest rate.
        warmup: the steps of the rise, as a part of all steps if below 1, else as their number.
        final: the rate after the last step.
    """
    if warmup < 0:
        raise OpError(f"warmup_cosine: warmup={warmup} is negative")

    def rate(block: Block) -> Value:
        step = ops.cast(block.state("step"), dtype="float64")
        total = ops.cast(block.state("total_steps"), dtype="float64")
        rise = total * warmup if warmup < 1 else block.constant("float64", warmup)
        rising = peak * (step + 1.0) / ops.maximum(rise, 1.0)
        part = ops.minimum((step - rise) / ops.maximum(total - rise, 1.0), 1.0)
        falling = final + (peak - final) * 0.5 * (1.0 + ops.cos(part * pi))
        return ops.where(step < rise, ops.minimum(rising, peak), falling)

    return rate


def as_schedule(rate: float | Schedule) -> Schedule:
    """A number is a constant schedule."""
    return constant(rate) if isinstance(rate, int | float) else rate

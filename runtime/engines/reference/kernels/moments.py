"""Parts of updates that keep running means, each for one piece of a parameter, as update.py partitions it.

Any output may overwrite its input. A piece of the parameter is first shrunk by decoupled decay, and then stepped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import copysign, inf, nan, sqrt
from typing import TypedDict

import numpy as np

from runtime.engines.reference.kernels.update import decayed, pieces
from runtime.kernel import Array


class AdamSettings(TypedDict):
    """The settings that Adam and its variants have in common."""

    beta1: float
    beta2: float
    epsilon: float
    decay: float


def moments(
    tensors: Sequence[Array],
    out: Sequence[Array],
    settings: AdamSettings,
    decay: float,
    scratch: Sequence[Array],
    more: Sequence[Array] = (),
) -> Iterator[Sequence[Array]]:
    """Yield for each piece of w its gradient with coupled decay, the new w to be filled, and both running means.

    The means of the gradient and of its square are complete when they are yielded. Pieces of `more` and of the scratch
    follow. `tensors` are w, dw, m and v, `out` their successors without dw.
    """
    for p, dp, old_m, old_v, new_p, new_m, new_v, *rest in pieces([*tensors, *out, *more], scratch):
        g = decayed(p, dp, decay, rest[-1])
        follow(old_m, g, 1 - settings["beta1"], new_m, rest[-len(scratch)])
        follow_square(old_v, g, settings["beta2"], new_v, rest[-len(scratch)])
        yield p, g, new_p, new_m, new_v, *rest


def follow(old: Array, g: Array, share: float, new: Array, part: Array) -> None:
    """Write the running mean of g: old, moved towards g by `share` of the distance."""
    np.subtract(g, old, part)
    np.multiply(part, share, part)
    np.add(old, part, new)


def follow_square(old: Array, g: Array, factor: float, new: Array, part: Array) -> None:
    """Write the running mean of the square of g, factor * old + (1 - factor) * g^2."""
    np.multiply(g, g, part)
    np.multiply(part, 1 - factor, part)
    np.multiply(old, factor, new)
    np.add(new, part, new)


def root_plus(v: Array, root: float, epsilon: float, out: Array) -> None:
    """Write the divisor sqrt(v) / root + epsilon."""
    np.sqrt(v, out)
    if root != 1:
        np.divide(out, root, out)
    np.add(out, epsilon, out)


def step_along(p: Array, direction: Array, size: float, shrink: float, new_p: Array, part: Array) -> None:
    """Write the new parameter p - shrink * p - size * direction; `direction` may not be `part`."""
    np.multiply(direction, size, part)
    if shrink:
        np.multiply(p, 1 - shrink, new_p)
        p = new_p
    np.subtract(p, part, new_p)


def decays(decay: float, decoupled: bool, rate: Array) -> tuple[float, float]:
    """Return the coupled decay, and the factor by which decoupled decay shrinks a parameter."""
    return (0.0, rate.item() * decay) if decoupled else (decay, 0.0)


def power(base: float, exponent: float) -> float:
    """Return base ** exponent for a base of at least 0: infinity where it overflows."""
    try:
        return base**exponent
    except (OverflowError, ZeroDivisionError):
        return inf


def filled(beta: float, t: int) -> float:
    """Return 1 - beta ** t, the share of gradients in a mean of t of them; t below 1 is no error."""
    return 1 - power(beta, t)


def quotient(a: float, b: float) -> float:
    """Return a / b: infinity or NaN where b is 0."""
    try:
        return a / b
    except ZeroDivisionError:
        return a * copysign(inf, b)


def root(x: float) -> float:
    """Return the square root of x, NaN below 0."""
    return sqrt(x) if x >= 0 else nan

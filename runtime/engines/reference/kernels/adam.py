"""Adam and related optimisers: updates by the running means of the gradient and of its square.

The tensors of an update are w, dw, the means m and v, further states, the rate and the number of earlier steps; results
are the successors of w and the states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np

from runtime.engines.reference.kernels.moments import (
    AdamSettings,
    decays,
    filled,
    follow,
    moments,
    power,
    quotient,
    root,
    root_plus,
    step_along,
)
from runtime.engines.reference.kernels.update import decayed, pieces, some_pieces
from runtime.kernel import Array, kernel


@kernel(scratch=some_pieces(2), in_place=[(0, 0), (1, 2), (2, 3)], by_element=True)
def adam(*tensors: Array, out: list[Array], scratch: list[Array], **settings: Unpack[AdamSettings]) -> None:
    take_adam(tensors, out, scratch, settings, decoupled=False)


@kernel(scratch=some_pieces(2), in_place=[(0, 0), (1, 2), (2, 3)], by_element=True)
def adamw(*tensors: Array, out: list[Array], scratch: list[Array], **settings: Unpack[AdamSettings]) -> None:
    take_adam(tensors, out, scratch, settings, decoupled=True)


def take_adam(
    tensors: Sequence[Array], out: list[Array], scratch: list[Array], settings: AdamSettings, *, decoupled: bool
) -> None:
    """Update by Adam with coupled or decoupled decay."""
    *kept, rate, step = tensors
    size, full = corrections(rate, step, settings)
    coupled, apart = decays(settings["decay"], decoupled, rate)
    for p, _, new_p, mean, square, part, rest in moments(kept, out, settings, coupled, scratch):
        root_plus(square, full, settings["epsilon"], part)
        np.divide(mean, part, part)
        step_along(p, part, size, apart, new_p, rest)


def corrections(rate: Array, step: Array, settings: AdamSettings) -> tuple[float, float]:
    """Return the bias-corrected rate, and the root of the bias correction of the squares."""
    t = step.item() + 1
    return quotient(rate.item(), filled(settings["beta1"], t)), root(filled(settings["beta2"], t))


@kernel(scratch=some_pieces(2), in_place=[(0, 0), (1, 2), (2, 3), (3, 4)], by_element=True)
def amsgrad(
    *tensors: Array, decoupled: bool, out: list[Array], scratch: list[Array], **settings: Unpack[AdamSettings]
) -> None:
    *kept, largest, rate, step = tensors
    size, full = corrections(rate, step, settings)
    coupled, apart = decays(settings["decay"], decoupled, rate)
    *out, new_largest = out
    more = [largest, new_largest]
    for p, _, new_p, mean, square, old_top, top, part, rest in moments(kept, out, settings, coupled, scratch, more):
        np.maximum(old_top, square, out=top)
        root_plus(top, full, settings["epsilon"], part)
        np.divide(mean, part, part)
        step_along(p, part, size, apart, new_p, rest)


@kernel(scratch=some_pieces(2), in_place=[(0, 0), (1, 2), (2, 3)], by_element=True)
def adamax(*tensors: Array, out: list[Array], scratch: list[Array], **settings: Unpack[AdamSettings]) -> None:
    *kept, rate, step = tensors
    size = quotient(rate.item(), filled(settings["beta1"], step.item() + 1))
    for p, dp, old_m, old_top, new_p, new_m, top, part, rest in pieces([*kept, *out], scratch):
        g = decayed(p, dp, settings["decay"], rest)
        follow(old_m, g, 1 - settings["beta1"], new_m, part)
        np.absolute(g, part)
        np.add(part, settings["epsilon"], part)
        np.multiply(old_top, settings["beta2"], top)
        np.maximum(top, part, out=top)
        np.divide(new_m, top, part)
        step_along(p, part, size, 0.0, new_p, rest)


@kernel(scratch=some_pieces(3), in_place=[(0, 0), (1, 2), (2, 3), (3, 4)], by_element=True)
def nadam(
    *tensors: Array,
    momentum_decay: float,
    decoupled: bool,
    out: list[Array],
    scratch: list[Array],
    **settings: Unpack[AdamSettings],
) -> None:
    *kept, product, rate, step = tensors
    t, slope = step.item() + 1, rate.item()
    now, after = (settings["beta1"] * (1 - 0.5 * power(0.96, i * momentum_decay)) for i in (t, t + 1))
    before = product.item() * now
    *out, new_product = out
    new_product.fill(before)
    by_gradient, by_mean = quotient(slope * (1 - now), 1 - before), quotient(slope * after, 1 - before * after)
    full = root(filled(settings["beta2"], t))
    coupled, apart = decays(settings["decay"], decoupled, rate)
    for p, g, new_p, mean, square, part, total, rest in moments(kept, out, settings, coupled, scratch):
        np.multiply(g, by_gradient, total)
        np.multiply(mean, by_mean, part)
        np.add(total, part, total)
        root_plus(square, full, settings["epsilon"], part)
        np.divide(total, part, total)
        step_along(p, total, 1.0, apart, new_p, rest)


@kernel(scratch=some_pieces(2), in_place=[(0, 0), (1, 2), (2, 3)], by_element=True)
def radam(
    *tensors: Array, decoupled: bool, out: list[Array], scratch: list[Array], **settings: Unpack[AdamSettings]
) -> None:
    *kept, rate, step = tensors
    t, beta2 = step.item() + 1, settings["beta2"]
    size = quotient(rate.item(), filled(settings["beta1"], t))
    left = filled(beta2, t)
    end = 2 / (1 - beta2) - 1
    reached = end - quotient(2 * t * power(beta2, t), left)
    adapts = reached > 5
    if adapts:
        size *= root(left * (reached - 4) * (reached - 2) * end / ((end - 4) * (end - 2) * reached))
    coupled, apart = decays(settings["decay"], decoupled, rate)
    for p, _, new_p, mean, square, part, rest in moments(kept, out, settings, coupled, scratch):
        if adapts:
            root_plus(square, 1.0, settings["epsilon"], part)
            np.divide(mean, part, part)
        step_along(p, part if adapts else mean, size, apart, new_p, rest)


@kernel(scratch=some_pieces(2), in_place=[(0, 1), (1, 2), (2, 3)], by_element=True)
def adam_scale(*tensors: Array, out: list[Array], scratch: list[Array], **settings: Unpack[AdamSettings]) -> None:
    *kept, step = tensors
    t = step.item() + 1
    first, full = filled(settings["beta1"], t), root(filled(settings["beta2"], t))
    for p, _, direction, mean, square, part, rest in moments(kept, out, settings, 0.0, scratch):
        root_plus(square, full, settings["epsilon"], part)
        np.multiply(part, first, part)
        np.multiply(p, settings["decay"], rest)
        np.divide(mean, part, direction)
        np.add(direction, rest, direction)

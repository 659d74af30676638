"""Adam and related optimisers: updates by the running means of the gradient and of its square."""

from __future__ import annotations

import numpy as np

from runtime.engines.reference.kernels.moments import (
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
from runtime.engines.reference.kernels.update import (
    decayed,
    pieces,
    some_pieces,
)
from runtime.kernel import Array, kernel


@kernel(scratch=some_pieces(2), in_place=[(0, 0), (1, 2), (2, 3)], by_element=True)
def adam(
    w: Array,
    dw: Array,
    m: Array,
    v: Array,
    rate: Array,
    step: Array,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
    out: list[Array],
    scratch: list[Array],
) -> None:
    take_adam([w, dw, m, v], rate, step, (beta1, beta2), epsilon, (decay, 0.0), out, scratch)


@kernel(scratch=some_pieces(2), in_place=[(0, 0), (1, 2), (2, 3)], by_element=True)
def adamw(
    w: Array,
    dw: Array,
    m: Array,
    v: Array,
    rate: Array,
    step: Array,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
    out: list[Array],
    scratch: list[Array],
) -> None:
    take_adam([w, dw, m, v], rate, step, (beta1, beta2), epsilon, decays(decay, True, rate), out, scratch)


def take_adam(
    tensors: list[Array],
    rate: Array,
    step: Array,
    betas: tuple[float, float],
    epsilon: float,
    decay: tuple[float, float],
    out: list[Array],
    scratch: list[Array],
) -> None:
    """Update by Adam with coupled and decoupled decay."""
    size, full = corrections(rate, step, betas)
    coupled, apart = decay
    for p, _, new_p, mean, square, part, rest in moments(tensors, out, betas, coupled, scratch):
        root_plus(square, full, epsilon, part)
        np.divide(mean, part, part)
        step_along(p, part, size, apart, new_p, rest)


def corrections(rate: Array, step: Array, betas: tuple[float, float]) -> tuple[float, float]:
    """Return the bias-corrected rate, and the root of the bias correction of the squares."""
    t = step.item() + 1
    return quotient(rate.item(), filled(betas[0], t)), root(filled(betas[1], t))


@kernel(scratch=some_pieces(2), in_place=[(0, 0), (1, 2), (2, 3), (3, 4)], by_element=True)
def amsgrad(
    w: Array,
    dw: Array,
    m: Array,
    v: Array,
    largest: Array,
    rate: Array,
    step: Array,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
    decoupled: bool,
    out: list[Array],
    scratch: list[Array],
) -> None:
    betas, (coupled, apart) = (beta1, beta2), decays(decay, decoupled, rate)
    size, full = corrections(rate, step, betas)
    *out, new_largest = out
    for p, _, new_p, mean, square, old_top, top, part, rest in moments(
        [w, dw, m, v], out, betas, coupled, scratch, more=[largest, new_largest]
    ):
        np.maximum(old_top, square, out=top)
        root_plus(top, full, epsilon, part)
        np.divide(mean, part, part)
        step_along(p, part, size, apart, new_p, rest)


@kernel(scratch=some_pieces(2), in_place=[(0, 0), (1, 2), (2, 3)], by_element=True)
def adamax(
    w: Array,
    dw: Array,
    m: Array,
    largest: Array,
    rate: Array,
    step: Array,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
    out: list[Array],
    scratch: list[Array],
) -> None:
    size = quotient(rate.item(), filled(beta1, step.item() + 1))
    for p, dp, old_m, old_top, new_p, new_m, top, part, rest in pieces([w, dw, m, largest, *out], scratch):
        g = decayed(p, dp, decay, rest)
        follow(old_m, g, 1 - beta1, new_m, part)
        np.absolute(g, part)
        np.add(part, epsilon, part)
        np.multiply(old_top, beta2, top)
        np.maximum(top, part, out=top)
        np.divide(new_m, top, part)
        step_along(p, part, size, 0.0, new_p, rest)


@kernel(scratch=some_pieces(3), in_place=[(0, 0), (1, 2), (2, 3), (3, 4)], by_element=True)
def nadam(
    w: Array,
    dw: Array,
    m: Array,
    v: Array,
    product: Array,
    rate: Array,
    step: Array,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    momentum_decay: float,
    decay: float,
    decoupled: bool,
    out: list[Array],
    scratch: list[Array],
) -> None:
    t, slope = step.item() + 1, rate.item()
    now, after = (beta1 * (1 - 0.5 * power(0.96, i * momentum_decay)) for i in (t, t + 1))
    before = product.item() * now
    out[3].fill(before)
    by_gradient, by_mean = quotient(slope * (1 - now), 1 - before), quotient(slope * after, 1 - before * after)
    full = root(filled(beta2, t))
    coupled, apart = decays(decay, decoupled, rate)
    for p, g, new_p, mean, square, part, total, rest in moments(
        [w, dw, m, v], out[:3], (beta1, beta2), coupled, scratch
    ):
        np.multiply(g, by_gradient, total)
        np.multiply(mean, by_mean, part)
        np.add(total, part, total)
        root_plus(square, full, epsilon, part)
        np.divide(total, part, total)
        step_along(p, total, 1.0, apart, new_p, rest)


@kernel(scratch=some_pieces(2), in_place=[(0, 0), (1, 2), (2, 3)], by_element=True)
def radam(
    w: Array,
    dw: Array,
    m: Array,
    v: Array,
    rate: Array,
    step: Array,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
    decoupled: bool,
    out: list[Array],
    scratch: list[Array],
) -> None:
    t = step.item() + 1
    size = quotient(rate.item(), filled(beta1, t))
    left = filled(beta2, t)
    end = 2 / (1 - beta2) - 1
    reached = end - quotient(2 * t * power(beta2, t), left)
    adapts = reached > 5
    if adapts:
        size *= root(left * (reached - 4) * (reached - 2) * end / ((end - 4) * (end - 2) * reached))
    coupled, apart = decays(decay, decoupled, rate)
    for p, _, new_p, mean, square, part, rest in moments([w, dw, m, v], out, (beta1, beta2), coupled, scratch):
        if adapts:
            root_plus(square, 1.0, epsilon, part)
            np.divide(mean, part, part)
        step_along(p, part if adapts else mean, size, apart, new_p, rest)


@kernel(scratch=some_pieces(2), in_place=[(0, 1), (1, 2), (2, 3)], by_element=True)
def adam_scale(
    w: Array,
    dw: Array,
    m: Array,
    v: Array,
    step: Array,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
    out: list[Array],
    scratch: list[Array],
) -> None:
    t = step.item() + 1
    first, full = filled(beta1, t), root(filled(beta2, t))
    for p, _, direction, mean, square, part, rest in moments([w, dw, m, v], out, (beta1, beta2), 0.0, scratch):
        root_plus(square, full, epsilon, part)
        np.multiply(part, first, part)
        np.multiply(p, decay, rest)
        np.divide(mean, part, direction)
        np.add(direction, rest, direction)

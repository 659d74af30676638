"""Updates at a rate that adapts to each element's gradients, and parts of such updates; adam.py has Adam's family."""

from __future__ import annotations

import numpy as np

from runtime.engines.reference.kernels.moments import (
    follow,
    follow_square,
    quotient,
    root_plus,
    step_along,
)
from runtime.engines.reference.kernels.update import (
    decayed,
    pieces,
    some_pieces,
)
from runtime.kernel import Array, kernel


@kernel(scratch=some_pieces(2), in_place=[(0, 0), (1, 2)], by_element=True)
def adagrad(
    w: Array,
    dw: Array,
    total: Array,
    rate: Array,
    step: Array,
    *,
    rate_decay: float,
    epsilon: float,
    decay: float,
    out: list[Array],
    scratch: list[Array],
) -> None:
    size = quotient(rate.item(), 1 + step.item() * rate_decay)
    for p, dp, old, new_p, new, part, rest in pieces([w, dw, total, *out], scratch):
        g = decayed(p, dp, decay, rest)
        np.multiply(g, g, part)
        np.add(old, part, new)
        root_plus(new, 1.0, epsilon, part)
        np.divide(g, part, part)
        step_along(p, part, size, 0.0, new_p, rest)


@kernel(scratch=some_pieces(3), in_place=[(0, 0), (1, 2), (2, 3)], by_element=True)
def adadelta(
    w: Array,
    dw: Array,
    v: Array,
    change: Array,
    rate: Array,
    *,
    rho: float,
    epsilon: float,
    decay: float,
    out: list[Array],
    scratch: list[Array],
) -> None:
    for p, dp, old_v, old, new_p, new_v, new, part, rest, along in pieces([w, dw, v, change, *out], scratch):
        g = decayed(p, dp, decay, rest)
        follow_square(old_v, g, rho, new_v, part)
        np.add(new_v, epsilon, part)
        np.sqrt(part, part)
        np.add(old, epsilon, along)
        np.sqrt(along, along)
        np.divide(along, part, along)
        np.multiply(along, g, along)
        follow_square(old, along, rho, new, part)
        step_along(p, along, rate.item(), 0.0, new_p, rest)


@kernel(scratch=some_pieces(2), in_place=[(0, 0), (1, 2)], by_element=True)
def lion(
    w: Array,
    dw: Array,
    m: Array,
    rate: Array,
    *,
    beta1: float,
    beta2: float,
    decay: float,
    out: list[Array],
    scratch: list[Array],
) -> None:
    for p, g, old, new_p, new, part, rest in pieces([w, dw, m, *out], scratch):
        np.multiply(old, beta1, part)
        np.multiply(g, 1 - beta1, rest)
        np.add(part, rest, part)
        np.sign(part, part)
        step_along(p, part, rate.item(), rate.item() * decay, new_p, rest)
        follow(old, g, 1 - beta2, new, part)


@kernel(scratch=some_pieces(2), in_place=[(0, 1), (1, 2)], by_element=True)
def rms_scale(
    w: Array,
    dw: Array,
    v: Array,
    *,
    alpha: float,
    epsilon: float,
    decay: float,
    out: list[Array],
    scratch: list[Array],
) -> None:
    for p, dp, old, direction, new, part, rest in pieces([w, dw, v, *out], scratch):
        g = decayed(p, dp, decay, rest)
        follow_square(old, g, alpha, new, part)
        root_plus(new, 1.0, epsilon, part)
        np.divide(g, part, direction)


@kernel(scratch=some_pieces(2), in_place=[(0, 1), (1, 2), (2, 3)], by_element=True)
def centred_rms_scale(
    w: Array,
    dw: Array,
    v: Array,
    mean: Array,
    *,
    alpha: float,
    epsilon: float,
    decay: float,
    out: list[Array],
    scratch: list[Array],
) -> None:
    for p, dp, old, old_mean, direction, new, new_mean, part, rest in pieces([w, dw, v, mean, *out], scratch):
        g = decayed(p, dp, decay, rest)
        follow_square(old, g, alpha, new, part)
        follow(old_mean, g, 1 - alpha, new_mean, part)
        np.multiply(new_mean, new_mean, part)
        np.subtract(new, part, part)
        root_plus(part, 1.0, epsilon, part)
        np.divide(g, part, direction)

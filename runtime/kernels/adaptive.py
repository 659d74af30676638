"""Updates at a rate that adapts to each element, a piece at a time as in update.py.

Any output may lie over its input. A piece of the parameter is shrunk by decoupled decay first, and stepped last.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS
from runtime.kernel import Array, Types, kernel, require, types
from runtime.kernels.update import decayed, piece_of, pieces, require_parameter

COUNTER = TensorType("int64", ())
SCALAR = TensorType("float64", ())


def adamw_rule(
    w: TensorType,
    dw: TensorType,
    m: TensorType,
    v: TensorType,
    rate: TensorType,
    step: TensorType,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
) -> Types:
    require_parameter(w, rate, dw, m, v)
    require_step(step)
    return types(w, w, w, scratch=[piece_of(w)] * 2)


@kernel(adamw_rule, in_place=[(0, 0), (1, 2), (2, 3)])
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
    t = step.item() + 1
    size, root = rate.item() / (1 - beta1**t), sqrt(1 - beta2**t)
    for p, g, old_m, old_v, new_p, new_m, new_v, part, rest in pieces([w, dw, m, v, *out], scratch):
        follow(old_m, g, 1 - beta1, new_m, part)
        follow_square(old_v, g, beta2, new_v, part)
        root_plus(new_v, root, epsilon, part)
        np.divide(new_m, part, part)
        step_along(p, part, size, rate.item() * decay, new_p, rest)


def amsgrad_rule(
    w: TensorType,
    dw: TensorType,
    m: TensorType,
    v: TensorType,
    largest: TensorType,
    rate: TensorType,
    step: TensorType,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
    decoupled: bool,
) -> Types:
    require_parameter(w, rate, dw, m, v, largest)
    require_step(step)
    return types(w, w, w, w, scratch=[piece_of(w)] * 2)


@kernel(amsgrad_rule, in_place=[(0, 0), (1, 2), (2, 3), (3, 4)])
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
    t = step.item() + 1
    size, root = rate.item() / (1 - beta1**t), sqrt(1 - beta2**t)
    coupled, apart = _decays(decay, decoupled, rate)
    for p, dp, old_m, old_v, old_top, new_p, new_m, new_v, top, part, rest in pieces(
        [w, dw, m, v, largest, *out], scratch
    ):
        g = decayed(p, dp, coupled, rest)
        follow(old_m, g, 1 - beta1, new_m, part)
        follow_square(old_v, g, beta2, new_v, part)
        np.maximum(old_top, new_v, out=top)
        root_plus(top, root, epsilon, part)
        np.divide(new_m, part, part)
        step_along(p, part, size, apart, new_p, rest)


def adamax_rule(
    w: TensorType,
    dw: TensorType,
    m: TensorType,
    largest: TensorType,
    rate: TensorType,
    step: TensorType,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
) -> Types:
    require_parameter(w, rate, dw, m, largest)
    require_step(step)
    return types(w, w, w, scratch=[piece_of(w)] * 2)


@kernel(adamax_rule, in_place=[(0, 0), (1, 2), (2, 3)])
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
    size = rate.item() / (1 - beta1 ** (step.item() + 1))
    for p, dp, old_m, old_top, new_p, new_m, top, part, rest in pieces([w, dw, m, largest, *out], scratch):
        g = decayed(p, dp, decay, rest)
        follow(old_m, g, 1 - beta1, new_m, part)
        np.absolute(g, part)
        np.add(part, epsilon, part)
        np.multiply(old_top, beta2, top)
        np.maximum(top, part, out=top)
        np.divide(new_m, top, part)
        step_along(p, part, size, 0.0, new_p, rest)


def nadam_rule(
    w: TensorType,
    dw: TensorType,
    m: TensorType,
    v: TensorType,
    product: TensorType,
    rate: TensorType,
    step: TensorType,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    momentum_decay: float,
    decay: float,
    decoupled: bool,
) -> Types:
    require_parameter(w, rate, dw, m, v)
    require_step(step)
    require(product == SCALAR, f"product is {product}, not {SCALAR}")
    return types(w, w, w, SCALAR, scratch=[piece_of(w)] * 3)


@kernel(nadam_rule, in_place=[(0, 0), (1, 2), (2, 3), (3, 4)])
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
    now, after = (beta1 * (1 - 0.5 * 0.96 ** (i * momentum_decay)) for i in (t, t + 1))
    before = product.item() * now
    out[3].fill(before)
    by_gradient, by_mean = slope * (1 - now) / (1 - before), slope * after / (1 - before * after)
    root = sqrt(1 - beta2**t)
    coupled, apart = _decays(decay, decoupled, rate)
    for p, dp, old_m, old_v, new_p, new_m, new_v, part, rest, total in pieces([w, dw, m, v, *out[:3]], scratch):
        g = decayed(p, dp, coupled, rest)
        follow(old_m, g, 1 - beta1, new_m, part)
        follow_square(old_v, g, beta2, new_v, part)
        np.multiply(g, by_gradient, total)
        np.multiply(new_m, by_mean, part)
        np.add(total, part, total)
        root_plus(new_v, root, epsilon, part)
        np.divide(total, part, total)
        step_along(p, total, 1.0, apart, new_p, rest)


def radam_rule(
    w: TensorType,
    dw: TensorType,
    m: TensorType,
    v: TensorType,
    rate: TensorType,
    step: TensorType,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
    decoupled: bool,
) -> Types:
    require_parameter(w, rate, dw, m, v)
    require_step(step)
    return types(w, w, w, scratch=[piece_of(w)] * 2)


@kernel(radam_rule, in_place=[(0, 0), (1, 2), (2, 3)])
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
    size = rate.item() / (1 - beta1**t)
    left = 1 - beta2**t
    end = 2 / (1 - beta2) - 1
    reached = end - 2 * t * beta2**t / left
    adapts = reached > 5
    if adapts:
        size *= sqrt(left * (reached - 4) * (reached - 2) * end / ((end - 4) * (end - 2) * reached))
    coupled, apart = _decays(decay, decoupled, rate)
    for p, dp, old_m, old_v, new_p, new_m, new_v, part, rest in pieces([w, dw, m, v, *out], scratch):
        g = decayed(p, dp, coupled, rest)
        follow(old_m, g, 1 - beta1, new_m, part)
        follow_square(old_v, g, beta2, new_v, part)
        if adapts:
            root_plus(new_v, 1.0, epsilon, part)
            np.divide(new_m, part, part)
        step_along(p, part if adapts else new_m, size, apart, new_p, rest)


def adagrad_rule(
    w: TensorType,
    dw: TensorType,
    total: TensorType,
    rate: TensorType,
    step: TensorType,
    *,
    rate_decay: float,
    epsilon: float,
    decay: float,
) -> Types:
    require_parameter(w, rate, dw, total)
    require_step(step)
    return types(w, w, scratch=[piece_of(w)] * 2)


@kernel(adagrad_rule, in_place=[(0, 0), (1, 2)])
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
    size = rate.item() / (1 + step.item() * rate_decay)
    for p, dp, old, new_p, new, part, rest in pieces([w, dw, total, *out], scratch):
        g = decayed(p, dp, decay, rest)
        np.multiply(g, g, part)
        np.add(old, part, new)
        root_plus(new, 1.0, epsilon, part)
        np.divide(g, part, part)
        step_along(p, part, size, 0.0, new_p, rest)


def adadelta_rule(
    w: TensorType,
    dw: TensorType,
    v: TensorType,
    change: TensorType,
    rate: TensorType,
    *,
    rho: float,
    epsilon: float,
    decay: float,
) -> Types:
    require_parameter(w, rate, dw, v, change)
    return types(w, w, w, scratch=[piece_of(w)] * 3)


@kernel(adadelta_rule, in_place=[(0, 0), (1, 2), (2, 3)])
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


def lion_rule(
    w: TensorType,
    dw: TensorType,
    m: TensorType,
    rate: TensorType,
    *,
    beta1: float,
    beta2: float,
    decay: float,
) -> Types:
    require_parameter(w, rate, dw, m)
    return types(w, w, scratch=[piece_of(w)] * 2)


@kernel(lion_rule, in_place=[(0, 0), (1, 2)])
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


def rms_scale_rule(
    w: TensorType, dw: TensorType, v: TensorType, *, alpha: float, epsilon: float, decay: float
) -> Types:
    _require_slots(w, dw, v)
    return types(w, w, scratch=[piece_of(w)] * 2)


@kernel(rms_scale_rule, in_place=[(0, 1), (1, 2)])
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


def centred_rms_scale_rule(
    w: TensorType, dw: TensorType, v: TensorType, mean: TensorType, *, alpha: float, epsilon: float, decay: float
) -> Types:
    _require_slots(w, dw, v, mean)
    return types(w, w, w, scratch=[piece_of(w)] * 2)


@kernel(centred_rms_scale_rule, in_place=[(0, 1), (1, 2), (2, 3)])
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


def adam_scale_rule(
    w: TensorType,
    dw: TensorType,
    m: TensorType,
    v: TensorType,
    step: TensorType,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
) -> Types:
    _require_slots(w, dw, m, v)
    require_step(step)
    return types(w, w, w, scratch=[piece_of(w)] * 2)


@kernel(adam_scale_rule, in_place=[(0, 1), (1, 2), (2, 3)])
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
    first, root = 1 - beta1**t, sqrt(1 - beta2**t)
    for p, g, old_m, old_v, direction, new_m, new_v, part, rest in pieces([w, dw, m, v, *out], scratch):
        follow(old_m, g, 1 - beta1, new_m, part)
        follow_square(old_v, g, beta2, new_v, part)
        root_plus(new_v, root, epsilon, part)
        np.multiply(part, first, part)
        np.multiply(p, decay, rest)
        np.divide(new_m, part, direction)
        np.add(direction, rest, direction)


def follow(old: Array, g: Array, share: float, new: Array, part: Array) -> None:
    """The running mean of g: old moved by `share` of the way to it."""
    np.subtract(g, old, part)
    np.multiply(part, share, part)
    np.add(old, part, new)


def follow_square(old: Array, g: Array, factor: float, new: Array, part: Array) -> None:
    """The running mean of the square of g, factor * old + (1 - factor) * g^2."""
    np.multiply(g, g, part)
    np.multiply(part, 1 - factor, part)
    np.multiply(old, factor, new)
    np.add(new, part, new)


def root_plus(v: Array, root: float, epsilon: float, out: Array) -> None:
    """The divisor sqrt(v) / root + epsilon."""
    np.sqrt(v, out)
    if root != 1:
        np.divide(out, root, out)
    np.add(out, epsilon, out)


def step_along(p: Array, direction: Array, size: float, shrink: float, new_p: Array, part: Array) -> None:
    """The new parameter p - shrink * p - size * direction; `direction` may not be `part`."""
    np.multiply(direction, size, part)
    if shrink:
        np.multiply(p, 1 - shrink, new_p)
        p = new_p
    np.subtract(p, part, new_p)


def require_step(step: TensorType) -> None:
    """Raise ProgramError unless the step is a rank-0 int64 tensor."""
    require(step == COUNTER, f"step is {step}, not int64[]")


def _decays(decay: float, decoupled: bool, rate: Array) -> tuple[float, float]:
    """The coupled decay, and by how much decoupled decay shrinks a parameter."""
    return (0.0, rate.item() * decay) if decoupled else (decay, 0.0)


def _require_slots(w: TensorType, *others: TensorType) -> None:
    require(w.dtype in FLOATS, f"w is {w}; it must be of a float dtype")
    require(all(other == w for other in others), f"w is {w}, what goes with it {', '.join(map(str, others))}")

"""Adam and similar updates, by running means of the gradient and of its square."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, log
from typing import Any

from runtime.codegen import math
from runtime.codegen.ir import FLOAT64, Value
from runtime.codegen.ir.words import absolute, convert, maximum, sqrt, where
from runtime.codegen.rules.rule import numbers, pointwise
from runtime.codegen.rules.update import decayed

OPERANDS = {"float32", "float64", "int64"}
"""The dtypes of parameters, their slots, and the step."""


def adam(
    w: Value, dw: Value, m: Value, v: Value, rate: Value, step: Value, *, decay: float, **more: Any
) -> tuple[Value, Value, Value]:
    mean, square = moments(decayed(w, dw, decay), m, v, more["beta1"], more["beta2"])
    return along(w, mean / root_plus(square, **more), more["size"]), mean, square


def adamw(
    w: Value, dw: Value, m: Value, v: Value, rate: Value, step: Value, *, decay: float, **more: Any
) -> tuple[Value, Value, Value]:
    mean, square = moments(dw, m, v, more["beta1"], more["beta2"])
    return along(w * more["kept"], mean / root_plus(square, **more), more["size"]), mean, square


def adamax(
    w: Value, dw: Value, m: Value, largest: Value, rate: Value, step: Value, *, decay: float, **more: Any
) -> tuple[Value, Value, Value]:
    g = decayed(w, dw, decay)
    mean = follow(m, g, 1 - more["beta1"])
    top = maximum(largest * more["beta2"], absolute(g) + more["epsilon"])
    return along(w, mean / top, more["size"]), mean, top


def amsgrad(
    w: Value, dw: Value, m: Value, v: Value, largest: Value, rate: Value, step: Value, *, decay: float, **more: Any
) -> tuple[Value, Value, Value, Value]:
    mean, square = moments(coupled(w, dw, decay, **more), m, v, more["beta1"], more["beta2"])
    top = maximum(largest, square)
    return along(shrunk(w, **more), mean / root_plus(top, **more), more["size"]), mean, square, top


def nadam(
    w: Value,
    dw: Value,
    m: Value,
    v: Value,
    product: Value,
    rate: Value,
    step: Value,
    *,
    decay: float,
    **more: Any,
) -> tuple[Value, Value, Value, Value]:
    g = coupled(w, dw, decay, **more)
    mean, square = moments(g, m, v, more["beta1"], more["beta2"])
    direction = (g * more["by_gradient"] + mean * more["by_mean"]) / root_plus(square, **more)
    return shrunk(w, **more) - direction, mean, square, more["before"]


def radam(
    w: Value, dw: Value, m: Value, v: Value, rate: Value, step: Value, *, decay: float, **more: Any
) -> tuple[Value, Value, Value]:
    mean, square = moments(coupled(w, dw, decay, **more), m, v, more["beta1"], more["beta2"])
    direction = where(more["adapts"], mean / (sqrt(square) + more["epsilon"]), mean)
    return along(shrunk(w, **more), direction, more["size"]), mean, square


def adam_scale(
    w: Value, dw: Value, m: Value, v: Value, step: Value, *, decay: float, **more: Any
) -> tuple[Value, Value, Value]:
    mean, square = moments(dw, m, v, more["beta1"], more["beta2"])
    first, share = (convert(more[name], w.type.of(0)) for name in ("first", "share"))
    return mean / (root_plus(square, share=share, epsilon=more["epsilon"]) * first) + w * decay, mean, square


def coupled(w: Value, dw: Value, decay: float, *, decoupled: bool, **_: Any) -> Value:
    """Return the gradient, with the weight decay unless it is decoupled."""
    return dw if decoupled else decayed(w, dw, decay)


def shrunk(w: Value, *, decoupled: bool, kept: Value, **_: Any) -> Value:
    """Return the parameter, after a decoupled weight decay."""
    return w * kept if decoupled else w


def moments(g: Value, m: Value, v: Value, beta1: float, beta2: float) -> tuple[Value, Value]:
    """Return the running means of the gradient and of its square."""
    return follow(m, g, 1 - beta1), follow_square(v, g, beta2)


def follow(old: Value, g: Value, share: float) -> Value:
    """Return the mean, moved towards the gradient by a share of their difference."""
    return (g - old) * share + old


def follow_square(old: Value, g: Value, kept: float) -> Value:
    """Return the running mean of squares: `kept` of its old value, and the rest of the square of the gradient."""
    return old * kept + g * g * (1 - kept)


def root_plus(square: Value, *, share: Value, epsilon: float, **_: Any) -> Value:
    """Return sqrt(square) * share + epsilon; `share` is the bias correction of the root."""
    return sqrt(square) * share + epsilon


def along(w: Value, direction: Value, size: Value) -> Value:
    return w - direction * size


def corrections(*operands: Value | None, beta1: float, beta2: float, decay: float, **_: Any) -> Mapping[str, Value]:
    """Return, by name: the rate with the mean's bias correction, the root's bias correction, and 1 - rate * decay."""
    rate, step = numbers(operands, 2)
    t, wide = convert(step, FLOAT64) + 1, convert(rate, FLOAT64)
    size = wide / filled(t, beta1)
    share = 1 / sqrt(filled(t, beta2))
    kept = 1 - wide * decay
    return {name: convert(x, rate.type) for name, x in {"size": size, "share": share, "kept": kept}.items()}


def scheduled(*operands: Value | None, beta1: float, momentum_decay: float, **more: Any) -> Mapping[str, Value]:
    """Return the factors of NAdam, whose share of the old mean grows each step, and the product of its shares."""
    product, rate, step = numbers(operands, 3)
    t, wide = convert(step, FLOAT64) + 1, convert(rate, FLOAT64)
    now, after = ((math.exp(i * (momentum_decay * log(0.96))) * -0.5 + 1) * beta1 for i in (t, t + 1))
    before = product * now
    found = corrections(rate, step, beta1=beta1, **more)
    by_gradient, by_mean = (1 - now) / (1 - before) * wide, after / (1 - before * after) * wide
    sizes = {"by_gradient": by_gradient, "by_mean": by_mean}
    return {**found, "before": before, **{name: convert(x, rate.type) for name, x in sizes.items()}}


def rectified(*operands: Value | None, beta2: float, **more: Any) -> Mapping[str, Value]:
    """Return the factors of RAdam: its step is adaptive once the mean of squares has seen enough gradients."""
    rate, step = numbers(operands, 2)
    found = corrections(*operands, beta2=beta2, **more)
    t, end = convert(step, FLOAT64) + 1, 2 / (1 - beta2) - 1
    left = filled(t, beta2)
    reached = end - t * 2 * (1 - left) / left
    adapts = reached > 5
    ends = (end - 4) * (end - 2)
    factor = sqrt(left * (reached - 4) * (reached - 2) * end / (reached * ends)) if ends else reached
    size = convert(rate, FLOAT64) / filled(t, more["beta1"]) * where(adapts, factor, 1.0)
    return {**found, "adapts": adapts, "size": convert(size, rate.type)}


def shares(*operands: Value | None, beta1: float, beta2: float, **_: Any) -> Mapping[str, Value]:
    """Return the bias corrections of the mean and of the root of the mean of squares."""
    [step] = numbers(operands, 1)
    t = convert(step, FLOAT64) + 1
    return {"first": filled(t, beta1), "share": 1 / sqrt(filled(t, beta2))}


def filled(t: Value, beta: float) -> Value:
    """Return 1 - beta ** t, the bias correction after t gradients; for beta = 0 and t <= 0, the value of IEEE 754."""
    if not beta:
        return where(t > 0, 1.0, where(t.equal(0), t.like(0.0), -inf))
    return -math.expm1(t * log(beta))


pointwise("adam", adam, OPERANDS, corrections)
pointwise("adamw", adamw, OPERANDS, corrections)
pointwise("adamax", adamax, OPERANDS, corrections)
pointwise("amsgrad", amsgrad, OPERANDS, corrections)
pointwise("radam", radam, OPERANDS, rectified)
pointwise("adam_scale", adam_scale, OPERANDS, shares)
pointwise("nadam", nadam, OPERANDS, scheduled)

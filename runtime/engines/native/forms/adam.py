"""Adam and its kin: updates by the running means of the gradient and of its square."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import Any

from runtime.engines.native import math
from runtime.engines.native.forms.form import pointwise
from runtime.engines.native.forms.update import decayed
from runtime.engines.native.ir import FLOAT64, Value
from runtime.engines.native.ir.words import absolute, convert, maximum, sqrt

OPERANDS = {"float32", "float64", "int64"}
"""Of parameters and their slots, and of the step."""


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


def moments(g: Value, m: Value, v: Value, beta1: float, beta2: float) -> tuple[Value, Value]:
    """The running means of the gradient and of its square."""
    return follow(m, g, 1 - beta1), v * beta2 + g * g * (1 - beta2)


def follow(old: Value, g: Value, share: float) -> Value:
    """The old mean, moved by a share of the way to the gradient."""
    return (g - old) * share + old


def root_plus(square: Value, *, root: Value, epsilon: float, **_: Any) -> Value:
    return sqrt(square) / root + epsilon


def along(w: Value, direction: Value, size: Value) -> Value:
    return w - direction * size


def corrections(*operands: Value | None, beta1: float, beta2: float, decay: float, **_: Any) -> Mapping[str, Value]:
    """What becomes of the rate as the means fill up, and the root by which that of the squares is divided."""
    rate, step = operands[-2:]
    assert rate is not None, "the rate is one number"
    assert step is not None, "the step is one number"
    t, wide = convert(step, FLOAT64) + 1, convert(rate, FLOAT64)
    size = wide / filled(t, beta1)
    root = sqrt(filled(t, beta2))
    kept = 1 - wide * decay
    return {name: convert(x, rate.type) for name, x in {"size": size, "root": root, "kept": kept}.items()}


def filled(t: Value, beta: float) -> Value:
    """The share 1 - beta ** t of gradients in a mean of t of them."""
    return -math.expm1(t * log(beta)) if beta else t.like(1.0)


pointwise("adam", adam, OPERANDS, corrections)
pointwise("adamw", adamw, OPERANDS, corrections)
pointwise("adamax", adamax, OPERANDS, corrections)

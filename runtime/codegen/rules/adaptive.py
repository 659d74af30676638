"""Updates whose steps depend on earlier gradients: Adagrad, Adadelta, Lion, and the directions of RMSprop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.codegen.ir import FLOAT64, Value
from runtime.codegen.ir.words import convert, sqrt
from runtime.codegen.rules.adam import along, follow, follow_square
from runtime.codegen.rules.pointwise import sign
from runtime.codegen.rules.rule import FLOAT_DTYPES, numbers, pointwise
from runtime.codegen.rules.update import decayed


def adagrad(
    w: Value, dw: Value, total: Value, rate: Value, step: Value, *, epsilon: float, decay: float, size: Value, **_: Any
) -> tuple[Value, Value]:
    g = decayed(w, dw, decay)
    new = total + g * g
    return along(w, g / (sqrt(new) + epsilon), size), new


def slowed(*operands: Value | None, rate_decay: float, **_: Any) -> Mapping[str, Value]:
    rate, step = numbers(operands, 2)
    return {"size": convert(convert(rate, FLOAT64) / (convert(step, FLOAT64) * rate_decay + 1), rate.type)}


def adadelta(
    w: Value, dw: Value, v: Value, change: Value, rate: Value, *, rho: float, epsilon: float, decay: float
) -> tuple[Value, Value, Value]:
    g = decayed(w, dw, decay)
    square = follow_square(v, g, rho)
    direction = sqrt(change + epsilon) / sqrt(square + epsilon) * g
    return along(w, direction, rate), square, follow_square(change, direction, rho)


def lion(
    w: Value, dw: Value, m: Value, rate: Value, *, beta1: float, beta2: float, decay: float
) -> tuple[Value, Value]:
    direction = sign(m * beta1 + dw * (1 - beta1))
    return along(w * (1 - rate * decay), direction, rate), follow(m, dw, 1 - beta2)


def rms_scale(w: Value, dw: Value, v: Value, *, alpha: float, epsilon: float, decay: float) -> tuple[Value, Value]:
    g = decayed(w, dw, decay)
    new = follow_square(v, g, alpha)
    return g / (sqrt(new) + epsilon), new


def centred_rms_scale(
    w: Value, dw: Value, v: Value, mean: Value, *, alpha: float, epsilon: float, decay: float
) -> tuple[Value, Value, Value]:
    g = decayed(w, dw, decay)
    new, new_mean = follow_square(v, g, alpha), follow(mean, g, 1 - alpha)
    return g / (sqrt(new - new_mean * new_mean) + epsilon), new, new_mean


pointwise("adagrad", adagrad, FLOAT_DTYPES | {"int64"}, slowed)
pointwise("adadelta", adadelta, FLOAT_DTYPES)
pointwise("lion", lion, FLOAT_DTYPES)
pointwise("rms_scale", rms_scale, FLOAT_DTYPES)
pointwise("centred_rms_scale", centred_rms_scale, FLOAT_DTYPES)

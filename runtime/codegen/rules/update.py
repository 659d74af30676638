"""Updates by the gradient alone, and by its velocity."""

from __future__ import annotations

from runtime.codegen.ir import Value
from runtime.codegen.rules.rule import FLOAT_DTYPES, pointwise


def sgd(w: Value, dw: Value, rate: Value, *, decay: float) -> Value:
    return w - decayed(w, dw, decay) * rate


def momentum(
    w: Value, dw: Value, velocity: Value, rate: Value, *, momentum: float, nesterov: bool, decay: float
) -> tuple[Value, Value]:
    g = decayed(w, dw, decay)
    new = velocity * momentum + g
    change = new * momentum + g if nesterov else new
    return w - change * rate, new


def decayed(w: Value, dw: Value, decay: float) -> Value:
    """Return the gradient with the weight decay."""
    return w * decay + dw if decay else dw


pointwise("sgd", sgd, FLOAT_DTYPES)
pointwise("momentum", momentum, FLOAT_DTYPES)

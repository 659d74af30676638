"""Optimizer updates of a parameter w by its gradient dw, once per step.

The rate is a rank-0 tensor of w's dtype. Decay is coupled: decay * w is added to the gradient. Formulas are those of
PyTorch.
"""

from __future__ import annotations

from math import inf

from prograd_proto import TensorType
from registry.errors import require
from registry.op import op
from registry.shapes import require_float
from registry.value import Value


@op("new_w", differentiable=False)
def sgd(w: Value, dw: Value, rate: Value, *, decay: float = 0.0) -> TensorType:
    """Return w - rate * (dw + decay * w): gradient descent."""
    require_parameter(w, rate, dw=dw)
    require_settings(decay=decay)
    return w.type


@op("new_w", "new_velocity", differentiable=False)
def momentum(
    w: Value,
    dw: Value,
    velocity: Value,
    rate: Value,
    *,
    momentum: float = 0.9,
    nesterov: bool = False,
    decay: float = 0.0,
) -> tuple[TensorType, TensorType]:
    """Return w and velocity after a step of descent with momentum; g = dw + decay * w.

    new_velocity is momentum * velocity + g. The new w is w - rate * new_velocity (Polyak, 1964), or with `nesterov` w -
    rate * (g + momentum * new_velocity) (Sutskever et al., 2013).
    """
    require_parameter(w, rate, dw=dw, velocity=velocity)
    require_settings(momentum=momentum, decay=decay)
    return w.type, w.type


def require_parameter(w: Value, rate: Value, **others: Value) -> None:
    """Raise OpError unless the types of an update's operands fit each other."""
    require_slots(w, **others)
    require(rate.type == TensorType(w.dtype, ()), f"the rate is {rate.type}, not {w.dtype}[]")


def require_slots(w: Value, **others: Value) -> None:
    """Raise OpError unless w is of a float dtype and the others are of its type."""
    require_float(w)
    for name, value in others.items():
        require(value.type == w.type, f"{name} is {value.type}, not {w.type} as w is")


def require_step(step: Value) -> None:
    """Raise OpError unless the step is a rank-0 int64 tensor."""
    require(step.type == TensorType("int64", ()), f"step is {step.type}, not int64[]")


def require_settings(**settings: float) -> None:
    """Raise OpError unless decay rates of running means are in [0, 1) and other settings at least 0."""
    for name, value in settings.items():
        if name in ("beta1", "beta2", "alpha", "rho"):
            require(0 <= value < 1, f"{name} is {value}, which is not in [0, 1)")
        require(0 <= value < inf, f"{name} is {value}, which is not a number from 0 on")

"""What an optimizer makes of a parameter w and its gradient dw, once per step.

The rate is a rank-0 tensor of w's dtype, decay is coupled: added to the gradient as decay * w. Formulas are those
of PyTorch.
"""

from __future__ import annotations

from prograd_proto import TensorType
from registry.errors import require
from registry.op import op
from registry.shapes import require_float
from registry.value import Value


@op("new_w", differentiable=False)
def sgd(w: Value, dw: Value, rate: Value, *, decay: float = 0.0) -> TensorType:
    """Gradient descent: w - rate * (dw + decay * w)."""
    require_parameter(w, rate, dw=dw)
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
    """Gradient descent with new_velocity = momentum * velocity + g, where g = dw + decay * w.

    The new w is w - rate * new_velocity (Polyak, 1964), with `nesterov` w - rate * (g + momentum * new_velocity)
    (Sutskever et al., 2013).
    """
    require_parameter(w, rate, dw=dw, velocity=velocity)
    return w.type, w.type


@op("new_w", "new_m", "new_v", differentiable=False)
def adam(
    w: Value,
    dw: Value,
    m: Value,
    v: Value,
    rate: Value,
    step: Value,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    decay: float = 0.0,
) -> tuple[TensorType, TensorType, TensorType]:
    """Adam, with m and v the running means of the gradient g = dw + decay * w and of its square.

    `step` is the rank-0 int64 number of steps done before, t = step + 1. The new w is
    w - rate / (1 - beta1^t) * new_m / (sqrt(new_v / (1 - beta2^t)) + epsilon). Kingma and Ba, 2015.
    """
    require_parameter(w, rate, dw=dw, m=m, v=v)
    require_step(step)
    return w.type, w.type, w.type


def require_parameter(w: Value, rate: Value, **others: Value) -> None:
    """Raise OpError unless the types of what an update takes fit each other."""
    require_float(w)
    for name, value in others.items():
        require(value.type == w.type, f"{name} is {value.type}, not {w.type} as w is")
    require(rate.type == TensorType(w.dtype, ()), f"the rate is {rate.type}, not {w.dtype}[]")


def require_step(step: Value) -> None:
    """Raise OpError unless the step is a rank-0 int64 tensor."""
    require(step.type == TensorType("int64", ()), f"step is {step.type}, not int64[]")

"""Optimizer updates of a parameter w by its gradient dw, once per step.

The rate is a rank-0 tensor of w's dtype. Decay is coupled: decay * w is added to the gradient. Formulas are those of
PyTorch.
"""

from __future__ import annotations

from prograd_proto import TensorType
from registry.op import op
from registry.value import Value


@op("new_w", differentiable=False)
def sgd(w: Value, dw: Value, rate: Value, *, decay: float = 0.0) -> TensorType:
    """Return w - rate * (dw + decay * w): gradient descent."""
    ...


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
    ...

"""Updates whose rate adapts to each element's gradients, and parts of such updates; adam.py has Adam's variants.

The rate is a rank-0 tensor of w's dtype. `step` is the rank-0 int64 number of earlier steps. Decay is coupled, g = dw +
decay * w, unless the operator says that it is decoupled: then g = dw, and w shrinks by rate * decay * w. Formulas are
those of PyTorch.
"""

from __future__ import annotations

from prograd_proto import TensorType
from registry.op import op
from registry.value import Value


@op("new_w", "new_total", differentiable=False)
def adagrad(
    w: Value,
    dw: Value,
    total: Value,
    rate: Value,
    step: Value,
    *,
    rate_decay: float = 0.0,
    epsilon: float = 1e-10,
    decay: float = 0.0,
) -> tuple[TensorType, TensorType]:
    """Return w after a descent step by g / sqrt(sum of all squares), and that sum: Duchi et al., 2011.

    new_total = total + g^2; the new w is w - rate / (1 + step * rate_decay) * g / (sqrt(new_total) + epsilon).
    """
    ...


@op("new_w", "new_v", "new_change", differentiable=False)
def adadelta(
    w: Value,
    dw: Value,
    v: Value,
    change: Value,
    rate: Value,
    *,
    rho: float = 0.9,
    epsilon: float = 1e-6,
    decay: float = 0.0,
) -> tuple[TensorType, TensorType, TensorType]:
    """Return the result of a descent step in the units of w: Zeiler, 2012.

    new_v is the running mean of g^2 with the factor rho; d = g * sqrt(change + epsilon) / sqrt(new_v + epsilon);
    new_change is the running mean of d^2, and the new w is w - rate * d.
    """
    ...


@op("new_w", "new_m", differentiable=False)
def lion(
    w: Value,
    dw: Value,
    m: Value,
    rate: Value,
    *,
    beta1: float = 0.9,
    beta2: float = 0.99,
    decay: float = 0.0,
) -> tuple[TensorType, TensorType]:
    """Return w and m after a step of Lion: its direction is the sign of a running mean.

    Decay is decoupled: Chen et al., 2023.

    The new w is w - rate * (sign(beta1 * m + (1 - beta1) * dw) + decay * w), and new_m = beta2 * m + (1 - beta2) * dw.
    """
    ...


@op("direction", "new_v", differentiable=False)
def rms_scale(
    w: Value, dw: Value, v: Value, *, alpha: float = 0.99, epsilon: float = 1e-8, decay: float = 0.0
) -> tuple[TensorType, TensorType]:
    """Return g / (sqrt(new_v) + epsilon), and the running mean square: Tieleman and Hinton, 2012.

    new_v = alpha * v + (1 - alpha) * g^2. A gradient descent step along the first result is RMSprop.
    """
    ...


@op("direction", "new_v", "new_mean", differentiable=False)
def centred_rms_scale(
    w: Value, dw: Value, v: Value, mean: Value, *, alpha: float = 0.99, epsilon: float = 1e-8, decay: float = 0.0
) -> tuple[TensorType, TensorType, TensorType]:
    """Return g / (sqrt(new_v - new_mean^2) + epsilon), and both running means: Graves, 2013.

    new_v is the running mean of g^2 and new_mean that of g, both with the factor alpha.
    """
    ...

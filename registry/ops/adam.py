"""Adam and its variants: updates by the running means of the gradient and of its square.

The rate is a rank-0 tensor of w's dtype. `step` is the rank-0 int64 number of earlier steps, and t = step + 1. Decay is
coupled, g = dw + decay * w, unless the operator says that it is decoupled: then g = dw, and w shrinks by rate * decay *
w (Loshchilov and Hutter, 2019). Formulas are those of PyTorch.
"""

from __future__ import annotations

from prograd_proto import TensorType
from registry.op import op
from registry.traits import example
from registry.value import Value


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
    """Return w, m and v after a step of Adam; m and v are running means of the gradient and of its square.

    The gradient is g = dw + decay * w. `step` is the rank-0 int64 number of earlier steps, and t = step + 1. The new w
    is w - rate / (1 - beta1^t) * new_m / (sqrt(new_v / (1 - beta2^t)) + epsilon). Kingma and Ba, 2015.
    """
    ...


@op("new_w", "new_m", "new_v", differentiable=False)
def adamw(
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
    decay: float = 0.01,
) -> tuple[TensorType, TensorType, TensorType]:
    """Return w, m and v after a step of Adam with decoupled decay: Loshchilov and Hutter, 2019."""
    ...


@op("new_w", "new_m", "new_v", "new_largest", differentiable=False)
def amsgrad(
    w: Value,
    dw: Value,
    m: Value,
    v: Value,
    largest: Value,
    rate: Value,
    step: Value,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    decay: float = 0.0,
    decoupled: bool = False,
) -> tuple[TensorType, TensorType, TensorType, TensorType]:
    """Return the result of a step of Adam that divides by the largest running square: Reddi et al., 2018."""
    ...


@op("new_w", "new_m", "new_largest", differentiable=False)
def adamax(
    w: Value,
    dw: Value,
    m: Value,
    largest: Value,
    rate: Value,
    step: Value,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    decay: float = 0.0,
) -> tuple[TensorType, TensorType, TensorType]:
    """Return the result of a step of Adam by the decaying maximum of the gradients: Kingma and Ba, 2015.

    new_largest = max(beta2 * largest, abs(g) + epsilon), and w shrinks by rate / (1 - beta1^t) * new_m / new_largest.
    """
    ...


@example((2, 2), (2, 2), (2, 2), (2, 2), (), (), ())
@op("new_w", "new_m", "new_v", "new_product", differentiable=False)
def nadam(
    w: Value,
    dw: Value,
    m: Value,
    v: Value,
    product: Value,
    rate: Value,
    step: Value,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    momentum_decay: float = 0.004,
    decay: float = 0.0,
    decoupled: bool = False,
) -> tuple[TensorType, TensorType, TensorType, TensorType]:
    """Return the result of a step of Adam with Nesterov's momentum: Dozat, 2016.

    `product` is the rank-0 float64 product of mu_1 ... mu_(t-1), where mu_i = beta1 * (1 - 0.96^(i * momentum_decay)
    / 2). The new w is w - rate * (g * (1 - mu_t) / (1 - new_product) + new_m * mu_(t+1) / (1 - new_product *
    mu_(t+1))) / (sqrt(new_v / (1 - beta2^t)) + epsilon).
    """
    ...


@op("new_w", "new_m", "new_v", differentiable=False)
def radam(
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
    decoupled: bool = False,
) -> tuple[TensorType, TensorType, TensorType]:
    """Return the result of a step of Adam with rectified variance: Liu et al., 2020.

    With r_inf = 2 / (1 - beta2) - 1 and r = r_inf - 2 t beta2^t / (1 - beta2^t), the new w is w - rate * new_m / (1 -
    beta1^t) while r <= 5. For r > 5 that step is multiplied by sqrt(1 - beta2^t) / (sqrt(new_v) + epsilon) and sqrt((r
    - 4) (r - 2) r_inf / ((r_inf - 4) (r_inf - 2) r)).
    """
    ...


@op("direction", "new_m", "new_v", differentiable=False)
def adam_scale(
    w: Value,
    dw: Value,
    m: Value,
    v: Value,
    step: Value,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    decay: float = 0.0,
) -> tuple[TensorType, TensorType, TensorType]:
    """Return the direction of Adam plus decay * w, which LAMB scales: You et al., 2020.

    The direction is new_m / (1 - beta1^t) / (sqrt(new_v / (1 - beta2^t)) + epsilon) + decay * w; m and v are the
    running means of dw and of its square.
    """
    ...

"""Updates at a rate that adapts to each element's gradients, and parts of such updates.

As for other updates the rate is a rank-0 tensor of w's dtype, and `step` the rank-0 int64 number of steps done before,
t = step + 1. Decay is coupled, g = dw + decay * w, unless the operator says that it is decoupled: w shrinks by
rate * decay * w apart from the gradient (Loshchilov and Hutter, 2019), and g = dw. Formulas are those of PyTorch.
"""

from __future__ import annotations

from prograd_proto import TensorType
from registry.errors import require
from registry.op import op
from registry.ops.update import require_parameter, require_step
from registry.shapes import require_float
from registry.value import Value

SCALAR = TensorType("float64", ())


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
    """Adam with decoupled decay: Loshchilov and Hutter, 2019."""
    require_parameter(w, rate, dw=dw, m=m, v=v)
    require_step(step)
    return w.type, w.type, w.type


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
    """Adam with the largest running square so far in place of the last one: Reddi et al., 2018."""
    require_parameter(w, rate, dw=dw, m=m, v=v, largest=largest)
    require_step(step)
    return w.type, w.type, w.type, w.type


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
    """Adam with the decaying maximum of the gradients in place of their squares: Kingma and Ba, 2015.

    new_largest = max(beta2 * largest, abs(g) + epsilon), and w shrinks by rate / (1 - beta1^t) * new_m / new_largest.
    """
    require_parameter(w, rate, dw=dw, m=m, largest=largest)
    require_step(step)
    return w.type, w.type, w.type


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
    """Adam with Nesterov's momentum: Dozat, 2016.

    `product` is the rank-0 float64 product of mu_1 ... mu_(t-1), where mu_i = beta1 * (1 - 0.96^(i * momentum_decay)
    / 2). The new w is w - rate * (g * (1 - mu_t) / (1 - new_product) + new_m * mu_(t+1) / (1 - new_product *
    mu_(t+1))) / (sqrt(new_v / (1 - beta2^t)) + epsilon).
    """
    require_parameter(w, rate, dw=dw, m=m, v=v)
    require(product.type == SCALAR, f"product is {product.type}, not {SCALAR}")
    require_step(step)
    return w.type, w.type, w.type, SCALAR


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
    """Adam that follows the mean gradient alone until the variance of its rate is finite: Liu et al., 2020.

    With r_inf = 2 / (1 - beta2) - 1 and r = r_inf - 2 t beta2^t / (1 - beta2^t), the new w is
    w - rate * new_m / (1 - beta1^t) while r <= 5, and then that step is multiplied by sqrt(1 - beta2^t) /
    (sqrt(new_v) + epsilon) and sqrt((r - 4) (r - 2) r_inf / ((r_inf - 4) (r_inf - 2) r)).
    """
    require_parameter(w, rate, dw=dw, m=m, v=v)
    require_step(step)
    return w.type, w.type, w.type


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
    """Gradient descent by g / sqrt of all squares so far: Duchi et al., 2011.

    new_total = total + g^2; the new w is w - rate / (1 + step * rate_decay) * g / (sqrt(new_total) + epsilon).
    """
    require_parameter(w, rate, dw=dw, total=total)
    require_step(step)
    return w.type, w.type


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
    """Gradient descent in the units of w: Zeiler, 2012.

    new_v is the running mean of g^2 with the factor rho; d = g * sqrt(change + epsilon) / sqrt(new_v + epsilon);
    new_change is the running mean of d^2, and the new w is w - rate * d.
    """
    require_parameter(w, rate, dw=dw, v=v, change=change)
    return w.type, w.type, w.type


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
    """Steps of one size by the sign of a mean, with decoupled decay: Chen et al., 2023.

    The new w is w - rate * (sign(beta1 * m + (1 - beta1) * dw) + decay * w), and new_m = beta2 * m + (1 - beta2) * dw.
    """
    require_parameter(w, rate, dw=dw, m=m)
    return w.type, w.type


@op("direction", "new_v", differentiable=False)
def rms_scale(
    w: Value, dw: Value, v: Value, *, alpha: float = 0.99, epsilon: float = 1e-8, decay: float = 0.0
) -> tuple[TensorType, TensorType]:
    """The gradient over the root of its running mean square, g / (sqrt(new_v) + epsilon): Tieleman and Hinton, 2012.

    new_v = alpha * v + (1 - alpha) * g^2. A step of gradient descent along it is RMSprop.
    """
    _require_slots(w, dw=dw, v=v)
    return w.type, w.type


@op("direction", "new_v", "new_mean", differentiable=False)
def centred_rms_scale(
    w: Value, dw: Value, v: Value, mean: Value, *, alpha: float = 0.99, epsilon: float = 1e-8, decay: float = 0.0
) -> tuple[TensorType, TensorType, TensorType]:
    """The gradient over its running deviation, g / (sqrt(new_v - new_mean^2) + epsilon): Graves, 2013.

    new_v is the running mean of g^2 and new_mean that of g, both with the factor alpha.
    """
    _require_slots(w, dw=dw, v=v, mean=mean)
    return w.type, w.type, w.type


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
    """The direction of Adam plus decay * w, as LAMB scales it: You et al., 2020.

    It is new_m / (1 - beta1^t) / (sqrt(new_v / (1 - beta2^t)) + epsilon) + decay * w; m and v are the running means
    of dw and of its square.
    """
    _require_slots(w, dw=dw, m=m, v=v)
    require_step(step)
    return w.type, w.type, w.type


def _require_slots(w: Value, **others: Value) -> None:
    require_float(w)
    for name, value in others.items():
        require(value.type == w.type, f"{name} is {value.type}, not {w.type} as w is")

"""Activation functions under the names that users and ONNX know, one op each; floats only.

At a kink the gradient is PyTorch's: relu and its variants use the derivative from below, and clipping functions have 0
at both ends.
"""

from __future__ import annotations

import math  # a star import of its names would shadow operators

from prograd_proto import TensorType
from prograd_proto.result_types.pointwise import half_extent
from prograd_proto.result_types.shapes import normal_axis
from registry.op import op
from registry.ops.pointwise import abs as absolute
from registry.ops.pointwise import exp, pointwise, sigmoid, tanh, where
from registry.ops.reduce import sum_to
from registry.ops.shape import concat, split
from registry.ops.special import erfc
from registry.value import Value

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


@op
def leaky_relu(x: Value, *, alpha: float = 0.01) -> TensorType:
    """Return x where it is positive and alpha * x elsewhere; the gradient at 0 is alpha."""
    ...


@leaky_relu.gradient
def leaky_relu_gradient(x: Value, dy: Value, *, alpha: float) -> Value:
    return where(x > 0.0, dy, dy * alpha)


@op
def prelu(x: Value, slope: Value) -> TensorType:
    """Return x where it is positive and slope * x elsewhere; the slope broadcasts to x. He et al., 2015."""
    ...


@prelu.gradient
def prelu_gradient(x: Value, slope: Value, dy: Value) -> tuple[Value, Value]:
    is_positive = x > 0.0
    return where(is_positive, dy, dy * slope), sum_to(where(is_positive, 0.0, dy * x), slope)


@op
def elu(x: Value, *, alpha: float = 1.0) -> TensorType:
    """Return x where it is positive and alpha * (exp(x) - 1) elsewhere. Clevert et al., 2015."""
    ...


@elu.gradient
def elu_gradient(x: Value, dy: Value, *, alpha: float) -> Value:
    is_positive = x > 0.0
    return where(is_positive, dy, dy * exp(where(is_positive, 0.0, x)) * alpha)


@op
def celu(x: Value, *, alpha: float = 1.0) -> TensorType:
    """Return x where it is positive and alpha * (exp(x / alpha) - 1) elsewhere. Barron, 2017."""
    ...


@celu.gradient
def celu_gradient(x: Value, dy: Value, *, alpha: float) -> Value:
    is_positive = x > 0.0
    return where(is_positive, dy, dy * exp(where(is_positive, 0.0, x) / alpha))


@op
def selu(x: Value) -> TensorType:
    """Return 1.0507... times elu with alpha 1.6732..., which preserves mean 0 and variance 1.

    Klambauer et al., 2017.
    """
    ...


@selu.gradient
def selu_gradient(x: Value, dy: Value) -> Value:
    is_positive = x > 0.0
    below = exp(where(is_positive, 0.0, x)) * (SELU_SCALE * SELU_ALPHA)
    return dy * where(is_positive, SELU_SCALE, below)


@op
def gelu(x: Value, *, approximate: str = "none") -> TensorType:
    """Return x times the probability that a standard normal number is below x. Hendrycks and Gimpel, 2016.

    `approximate` is "none" or "tanh", for x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))).
    """
    ...


@gelu.gradient
def gelu_gradient(x: Value, dy: Value, *, approximate: str) -> Value:
    """Return the gradient, by as few functions as it takes: the native engine computes exp(-z * z) once."""
    if approximate == "none":
        z = x * -math.sqrt(0.5)
        return dy * (erfc(z) * 0.5 + x * exp(-(z * z)) * (1 / math.sqrt(2 * math.pi)))
    square, twice = x * x, 2 * math.sqrt(2 / math.pi)
    share = sigmoid(x * (square * (0.044715 * twice) + twice))  # (1 + tanh) / 2
    slope = square * (3 * 0.044715 * twice) + twice
    return dy * (share + x * share * (1.0 - share) * slope)


@op
def softplus(x: Value, *, beta: float = 1.0) -> TensorType:
    """Return log(1 + exp(beta * x)) / beta, a smooth maximum of x and 0, without PyTorch's linear threshold."""
    ...


@softplus.gradient
def softplus_gradient(x: Value, dy: Value, *, beta: float) -> Value:
    return dy * sigmoid(x if beta == 1.0 else x * beta)


@op
def hard_sigmoid(x: Value, *, alpha: float = 1 / 6, beta: float = 0.5) -> TensorType:
    """Return alpha * x + beta, clipped to 0 ... 1; the gradient is 0 where it is clipped.

    The defaults are PyTorch's; ONNX, TensorFlow and Keras before 3 use alpha = 0.2.
    """
    ...


@hard_sigmoid.gradient
def hard_sigmoid_gradient(y: Value, dy: Value, *, alpha: float) -> Value:
    return where((y > 0.0) & (y < 1.0), dy * alpha, 0.0)


@op
def hard_swish(x: Value) -> TensorType:
    """Return x times x / 6 + 1/2 clipped to 0 ... 1; the gradient is 0 at -3 and 1 at 3.

    Howard et al., 2019.
    """
    ...


@hard_swish.gradient
def hard_swish_gradient(x: Value, dy: Value) -> Value:
    return where(x <= -3.0, 0.0, where(x >= 3.0, dy, dy * (x / 3.0 + 0.5)))


@op
def hard_tanh(x: Value, *, min: float = -1.0, max: float = 1.0) -> TensorType:
    """Return x clipped to `min` ... `max`; the gradient at the bounds is 0, unlike that of `clip`."""
    ...


@hard_tanh.gradient
def hard_tanh_gradient(x: Value, dy: Value, *, min: float, max: float) -> Value:
    return where((x > min) & (x < max), dy, 0.0)


@op
def threshold(x: Value, *, threshold: float, value: float) -> TensorType:
    """Return x where it is above the threshold and `value` elsewhere; the gradient flows through NaN."""
    ...


@threshold.gradient
def threshold_gradient(x: Value, dy: Value, *, threshold: float) -> Value:
    return where(x <= threshold, 0.0, dy)


@op
def glu(x: Value, *, axis: int = -1) -> TensorType:
    """Return the first half of x along `axis` times the sigmoid of the second half. Dauphin et al., 2016."""
    ...


@glu.gradient
def glu_gradient(x: Value, dy: Value, *, axis: int) -> Value:
    half = half_extent(x, normal_axis(axis, x.rank))
    a, b = split(x, sizes=(half, half), axis=axis)
    gate = sigmoid(b)
    da = dy * gate
    return concat(da, da * a * (1.0 - gate), axis=axis)


def _mish_gradient(x: Value, y: Value, dy: Value) -> Value:
    bend = tanh(softplus(x))
    return dy * (bend + x * (1.0 - bend * bend) * sigmoid(x))


def _silu_gradient(x: Value, y: Value, dy: Value) -> Value:
    gate = sigmoid(x)
    return dy * (gate * (1.0 + x * (1.0 - gate)))


def _softsign_gradient(x: Value, y: Value, dy: Value) -> Value:
    scale = 1.0 + absolute(x)
    return dy / (scale * scale)


silu = pointwise("silu", "Return x * sigmoid(x), also called swish. Ramachandran et al., 2017.", _silu_gradient)
mish = pointwise("mish", "Return x * tanh(softplus(x)). Misra, 2019.", _mish_gradient)
softsign = pointwise("softsign", "Return x / (1 + |x|).", _softsign_gradient)
log_sigmoid = pointwise(
    "log_sigmoid", "Return the logarithm of sigmoid(x), accurate at both ends.", lambda x, y, dy: dy * sigmoid(-x)
)
relu6 = pointwise(
    "relu6",
    "Return x clipped to 0 ... 6; the gradient is 0 at the bounds.",
    lambda x, y, dy: where((y > 0.0) & (y < 6.0), dy, 0.0),
)

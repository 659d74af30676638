"""Numbers of eight bits with a scale and a zero point, and exact products of them.

A code c stands for the number scale * (c - zero). Codes are uint8. A signed number of eight bits is carried as the code
128 above it, with a zero point that is 128 larger: order and differences stay as they are.
"""

from __future__ import annotations

from prograd_proto import TensorType
from registry.op import op
from registry.spellings import Edges, Pair
from registry.traits import exact, example
from registry.value import Value


@exact
@op(differentiable=False)
def quantize_linear(x: Value, scale: Value, zero: Value) -> TensorType:
    """Return the codes of x: x / scale, rounded to nearest with ties to even, plus zero, and clipped to 0 ... 255.

    x and `scale` are float32, `zero` and the codes are uint8. The scale and the zero point broadcast to x. NaN becomes
    0. This is QuantizeLinear of ONNX.
    """
    ...


@exact
@op(differentiable=False)
def dequantize_linear(x: Value, scale: Value, zero: Value) -> TensorType:
    """Return the numbers of codes: the difference of x and zero, which is exact, times scale, rounded once to float32.

    x and `zero` are uint8, `scale` is float32, and both broadcast to x. This is DequantizeLinear of ONNX.
    """
    ...


@exact
@op(differentiable=False)
def requantize(x: Value, x_scale: Value, w_scale: Value, scale: Value, zero: Value) -> TensorType:
    """Return the codes of sums of products: x * (x_scale * w_scale / scale), rounded and clipped as `quantize_linear`.

    x is int32, and rounded to float32. The factor is computed first, in this order, each operation rounded to float32.
    The scales and the zero point broadcast to x.
    """
    ...


@exact
@example((2, 3), (3, 4), (), ())
@op(differentiable=False)
def integer_matmul(x: Value, w: Value, x_zero: Value, w_zero: Value) -> TensorType:
    """Return the exact matrix product of x - x_zero and w - w_zero over the last two axes, as int32.

    All operands are uint8. `x_zero` is a scalar, `w_zero` a scalar or one for each column of w. The leading axes of w
    are those of x, or w is a matrix. The inner axis has at most 33025 elements, so that no sum overflows.
    """
    ...


@exact
@example((1, 2, 2, 1), (1, 1, 1, 1), (), ())
@op(differentiable=False)
def integer_conv2d(
    x: Value,
    w: Value,
    x_zero: Value,
    w_zero: Value,
    *,
    stride: Pair = (1, 1),
    padding: Edges = (0, 0, 0, 0),
    dilation: Pair = (1, 1),
    groups: int = 1,
) -> TensorType:
    """Return the exact convolution of x - x_zero with the filters w - w_zero, as int32.

    All operands are uint8; `conv2d` describes x, w and the attributes. `x_zero` is a scalar, `w_zero` a scalar or one
    for each result channel. The padding is x_zero. A window has at most 33025 elements, so that no sum overflows.
    """
    ...

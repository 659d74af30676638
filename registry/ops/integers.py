"""Numbers of eight bits with a scale and a zero point, and exact products of them.

A code c stands for the number scale * (c - zero). Codes are uint8. A signed number of eight bits is carried as the code
128 above it, with a zero point that is 128 larger: order and differences stay as they are.
"""

from __future__ import annotations

from prograd_proto import TensorType
from registry.errors import require
from registry.op import op
from registry.ops.conv import convolved_shape
from registry.shapes import broadcast_shapes, show_shape
from registry.spellings import Edges, Pair
from registry.traits import exact, example
from registry.value import Value
from registry.windows import four_edges, require_image

MAX_DEPTH = 33025
"""Most products of differences of two codes whose sum an int32 always holds."""


@exact
@op(differentiable=False)
def quantize_linear(x: Value, scale: Value, zero: Value) -> TensorType:
    """Return the codes of x: x / scale, rounded to nearest with ties to even, plus zero, and clipped to 0 ... 255.

    x and `scale` are float32, `zero` and the codes are uint8. The scale and the zero point broadcast to x. NaN becomes
    0. This is QuantizeLinear of ONNX.
    """
    _require("x", x, "float32")
    _require_parameters(x, scale, zero)
    return TensorType("uint8", x.shape)


@exact
@op(differentiable=False)
def dequantize_linear(x: Value, scale: Value, zero: Value) -> TensorType:
    """Return the numbers of codes: the difference of x and zero, which is exact, times scale, rounded once to float32.

    x and `zero` are uint8, `scale` is float32, and both broadcast to x. This is DequantizeLinear of ONNX.
    """
    _require("x", x, "uint8")
    _require_parameters(x, scale, zero)
    return TensorType("float32", x.shape)


@exact
@op(differentiable=False)
def requantize(x: Value, x_scale: Value, w_scale: Value, scale: Value, zero: Value) -> TensorType:
    """Return the codes of sums of products: x * (x_scale * w_scale / scale), rounded and clipped as `quantize_linear`.

    x is int32, and rounded to float32. The factor is computed first, in this order, each operation rounded to float32.
    The scales and the zero point broadcast to x.
    """
    _require("x", x, "int32")
    _require_parameters(x, scale, zero)
    _require_parameters(x, x_scale, zero)
    _require_parameters(x, w_scale, zero)
    return TensorType("uint8", x.shape)


@exact
@example((2, 3), (3, 4), (), ())
@op(differentiable=False)
def integer_matmul(x: Value, w: Value, x_zero: Value, w_zero: Value) -> TensorType:
    """Return the exact matrix product of x - x_zero and w - w_zero over the last two axes, as int32.

    All operands are uint8. `x_zero` is a scalar, `w_zero` a scalar or one for each column of w. The leading axes of w
    are those of x, or w is a matrix. The inner axis has at most 33025 elements, so that no sum overflows.
    """
    for name, each in (("x", x), ("w", w)):
        _require(name, each, "uint8")
        require(each.rank >= 2, f"{name} has {each.rank} axes and needs two or more")
    require(w.rank == 2 or w.shape[:-2] == x.shape[:-2], f"w is {w.type}, whose leading axes are not those of {x.type}")
    require(x.shape[-1] == w.shape[-2], f"inner sizes differ: {x.shape[-1]} and {w.shape[-2]}")
    _require_depth(w.shape[-2])
    _require_zeros(x_zero, w_zero, w.shape[-1])
    return TensorType("int32", (*x.shape[:-1], w.shape[-1]))


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
    _require("x", x, "uint8")
    _require("w", w, "uint8")
    require_image(x)
    require(w.rank == 4, f"w has the axes [h, w, c / groups, o], not {w.rank} of them")
    shape = convolved_shape(x.shape, w.shape, stride, padding, dilation, groups)
    _require_depth(w.shape[0], w.shape[1], w.shape[2])
    _require_zeros(x_zero, w_zero, w.shape[3])
    return TensorType("int32", shape)


@integer_conv2d.written
def integer_conv2d_written(*, padding: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {"padding": four_edges(padding)}


def _require(name: str, x: Value, dtype: str) -> None:
    require(x.dtype == dtype, f"{name} is {x.dtype}, not {dtype}")


def _require_parameters(x: Value, scale: Value, zero: Value) -> None:
    _require("the scale", scale, "float32")
    _require("the zero point", zero, "uint8")
    for name, each in (("the scale", scale), ("the zero point", zero)):
        fits = broadcast_shapes(x.shape, each.shape) == x.shape
        require(fits, f"{name} is {each.type}, which does not broadcast to {x.type}")


def _require_zeros(x_zero: Value, w_zero: Value, columns: int | str) -> None:
    _require("x_zero", x_zero, "uint8")
    _require("w_zero", w_zero, "uint8")
    require(x_zero.rank == 0, f"x_zero is {x_zero.type}, and not a scalar")
    fits = w_zero.rank == 0 or w_zero.shape == (columns,)
    require(fits, f"w_zero has the shape {show_shape(w_zero.shape)}, neither () nor ({columns},)")


def _require_depth(*extents: int | str) -> None:
    depth = 1
    for extent in extents:
        require(isinstance(extent, int), f"the inner size is the symbol {extent!r}; here it must be a number")
        depth *= int(extent)
    require(depth <= MAX_DEPTH, f"sums have {depth} products, more than {MAX_DEPTH}")

"""Numbers of few bits with scales, and exact products of those of eight bits."""

from __future__ import annotations

from prograd_proto.errors import require
from prograd_proto.result_types.images import convolved_shape
from prograd_proto.result_types.rule import rule, rule_with_halves
from prograd_proto.result_types.shapes import broadcast_shapes, show_shape
from prograd_proto.result_types.windows import require_image
from prograd_proto.tensor_types import TensorType

MAX_DEPTH = 33025
"""Most products of differences of two codes whose sum an int32 always holds."""


@rule
def quantize_linear(x: TensorType, scale: TensorType, zero: TensorType) -> TensorType:
    _require("x", x, "float32")
    _require_parameters(x, scale, zero)
    return TensorType("uint8", x.shape)


@rule
def dequantize_linear(x: TensorType, scale: TensorType, zero: TensorType) -> TensorType:
    _require("x", x, "uint8")
    _require_parameters(x, scale, zero)
    return TensorType("float32", x.shape)


@rule
def requantize(
    x: TensorType, x_scale: TensorType, w_scale: TensorType, scale: TensorType, zero: TensorType
) -> TensorType:
    _require("x", x, "int32")
    _require_parameters(x, scale, zero)
    _require_parameters(x, x_scale, zero)
    _require_parameters(x, w_scale, zero)
    return TensorType("uint8", x.shape)


@rule
def integer_matmul(x: TensorType, w: TensorType, x_zero: TensorType, w_zero: TensorType) -> TensorType:
    for name, each in (("x", x), ("w", w)):
        _require(name, each, "uint8")
        require(each.rank >= 2, f"{name} has {each.rank} axes and needs two or more")
    require(w.rank == 2 or w.shape[:-2] == x.shape[:-2], f"w is {w}, whose leading axes are not those of {x}")
    require(x.shape[-1] == w.shape[-2], f"inner sizes differ: {x.shape[-1]} and {w.shape[-2]}")
    _require_depth(w.shape[-2])
    _require_zeros(x_zero, w_zero, w.shape[-1])
    return TensorType("int32", (*x.shape[:-1], w.shape[-1]))


@rule
def integer_conv2d(
    x: TensorType,
    w: TensorType,
    x_zero: TensorType,
    w_zero: TensorType,
    *,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> TensorType:
    _require("x", x, "uint8")
    _require("w", w, "uint8")
    require_image(x)
    require(w.rank == 4, f"w has the axes [h, w, c / groups, o], not {w.rank} of them")
    shape = convolved_shape(x.shape, w.shape, stride, padding, dilation, groups)
    _require_depth(w.shape[0], w.shape[1], w.shape[2])
    _require_zeros(x_zero, w_zero, w.shape[3])
    return TensorType("int32", shape)


@rule_with_halves
def dequantize(codes: TensorType, scales: TensorType, *, bits: int) -> TensorType:
    require(bits in (8, 4), f"bits is {bits}, neither 8 nor 4")
    require(codes.dtype == "uint8", f"the codes are {codes.dtype}, not uint8")
    require(scales.dtype == "float16", f"the scales are {scales.dtype}, not float16")
    require(
        codes.rank > 0 and codes.rank == scales.rank and codes.shape[:-1] == scales.shape[:-1],
        f"the codes are {codes} and the scales {scales}, which differ in another axis than the last",
    )
    count, blocks = codes.shape[-1], scales.shape[-1]
    require(isinstance(count, int) and isinstance(blocks, int), "the last axes have no fixed extents")
    require(
        int(blocks) > 0 and int(count) > 0 and int(count) % int(blocks) == 0,
        f"{blocks} blocks do not divide {count} bytes of codes",
    )
    return TensorType("float32", (*codes.shape[:-1], int(count) * 8 // bits))


def _require(name: str, x: TensorType, dtype: str) -> None:
    require(x.dtype == dtype, f"{name} is {x.dtype}, not {dtype}")


def _require_parameters(x: TensorType, scale: TensorType, zero: TensorType) -> None:
    _require("the scale", scale, "float32")
    _require("the zero point", zero, "uint8")
    for name, each in (("the scale", scale), ("the zero point", zero)):
        fits = broadcast_shapes(x.shape, each.shape) == x.shape
        require(fits, f"{name} is {each}, which does not broadcast to {x}")


def _require_zeros(x_zero: TensorType, w_zero: TensorType, columns: int | str) -> None:
    _require("x_zero", x_zero, "uint8")
    _require("w_zero", w_zero, "uint8")
    require(x_zero.rank == 0, f"x_zero is {x_zero}, and not a scalar")
    fits = w_zero.rank == 0 or w_zero.shape == (columns,)
    require(fits, f"w_zero has the shape {show_shape(w_zero.shape)}, neither () nor ({columns},)")


def _require_depth(*extents: int | str) -> None:
    depth = 1
    for extent in extents:
        require(isinstance(extent, int), f"the inner size is the symbol {extent!r}; here it must be a number")
        depth *= int(extent)
    require(depth <= MAX_DEPTH, f"sums have {depth} products, more than {MAX_DEPTH}")

"""Quantised tensors, read as the floats that they stand for."""

from __future__ import annotations

from typing import Final

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged, plain
from compiler.frontends.elements import cast_to
from compiler.frontends.onnx.dtypes import dtype_name
from compiler.frontends.onnx.known.constants import CARRIED
from compiler.frontends.onnx.node import Mapping, Node, cast, on_plain
from compiler.frontends.onnx.small_floats import FORMATS
from compiler.onnx_operators.conv import channels, convolved
from compiler.onnx_operators.integers import dequantized, dynamic_codes, has_codes, quantized
from compiler.onnx_operators.linalg import matmul
from registry import Value, ops

LIMITS: Final = {
    "uint8": (0.0, 255.0), "int8": (-128.0, 127.0), "int16": (-32768.0, 32767.0), "uint16": (0.0, 65535.0),
    "int2": (-2.0, 1.0), "uint2": (0.0, 3.0), "int4": (-8.0, 7.0), "uint4": (0.0, 15.0),
}  # fmt: skip
"""Least and largest numbers of quantised dtypes."""


def _limits(dtype: str | None) -> tuple[float, float]:
    if dtype not in LIMITS:
        raise CompileError(f"quantised to {dtype}, which prograd has not")
    return LIMITS[dtype]


def _along(node: Node, v: Value, x: Value) -> Value:
    """Return scales or zeros that broadcast with the elements that they are for."""
    if v.rank == 0 or x.rank == 0:
        return ops.reshape(v, shape=()) if v.rank else v
    axis = int(node.attribute("axis", 1)) % x.rank if int(node.attribute("axis", 1)) < x.rank else 0
    if v.shape == (1,):
        return ops.reshape(v, shape=())
    if v.rank == 1:
        return ops.reshape(v, shape=tuple(v.shape[0] if i == axis else 1 for i in range(x.rank)))
    block = int(node.attribute("block_size", 0))
    if block and v.shape != x.shape:
        y = ops.repeat(v, count=block, axis=axis)
        return y[tuple(slice(0, x.shape[i]) if i == axis else slice(None) for i in range(x.rank))]  # type: ignore[misc]
    return v


def _quantize(node: Node, x: Value, scale: Value, zero: Value | None = None) -> Value:
    given = node.attribute("output_dtype", 0)
    dtype = node.dtypes[2] if zero is not None else dtype_name(node.walk.onnx, given) if given else "uint8"
    y = cast(x, "float32") / cast(_along(node, scale, x), "float32")
    if dtype in FORMATS:
        return y
    least, most = _limits(dtype)
    shift = None if zero is None else cast(_along(node, zero, x), "float32")
    if node.walk.fake_quantize:
        node.walk.dtypes[node.outputs[0]] = "float32"  # integers have no gradient
        return _passed(y, shift, least, most)
    y = ops.round(y) if shift is None else ops.round(y) + shift
    return cast(ops.clip(y, least, most), CARRIED[dtype or "uint8"])


def _passed(y: Value, shift: Value | None, least: float, most: float) -> Value:
    """Return rounded and clipped numbers, whose gradient is that of the clipped ones. Bengio et al., 2013.

    The sum with the difference is exact: a number and its neighbouring integer differ by a multiple of its last digit.
    """
    whole = ops.round(y) if shift is None else ops.round(y) + shift
    open_ = ops.clip(y if shift is None else y + shift, least, most)
    return open_ + ops.stop_gradient(ops.clip(whole, least, most) - open_)


def rounded_weight(node: Node, w: Arranged) -> Arranged:
    """Return a weight rounded to the numbers of its file; codes of 32 bits are so fine that it stays as it is."""
    dtype = node.dtypes[0]
    if dtype not in LIMITS:
        return w
    value, scale, zero = plain(w), node.value(1), node.optional_value(2)
    scale = _along(node, cast(scale, value.dtype), value)
    shift = None if zero is None else _along(node, cast(zero, value.dtype), value)
    whole = _passed(value / scale, shift, *LIMITS[dtype])
    return arranged((whole if shift is None else whole - shift) * scale)


def _dequantize(node: Node, x: Value, scale: Value, zero: Value | None = None) -> Value:
    y = cast(x, scale.dtype)
    y = y if zero is None else y - cast(_along(node, zero, x), scale.dtype)
    return y * _along(node, scale, x)


def _dynamic(node: Node, x: Value) -> tuple[Value, Value, Value]:
    codes, scale, zero = dynamic_codes(x)
    if node.walk.fake_quantize:
        node.walk.dtypes[node.outputs[0]] = "float32"
        return _passed(x / scale, cast(zero, "float32"), 0.0, 255.0), scale, zero
    return codes, scale, zero


def _matmul(node: Node, *operands: Value) -> Value:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (cast(v, "float64") for v in operands)
    least, most = _limits(node.dtypes[7])
    product = matmul(arranged(a - a_zero), arranged(b - b_zero))
    y = ops.round(product.value * (a_scale * b_scale / y_scale)) + y_zero
    return cast(ops.clip(y, least, most), CARRIED[node.dtypes[7] or "uint8"])


def _conv(node: Node, *operands: Value) -> Value:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (cast(v, "float64") for v in operands[:8])

    def first_axis(v: Value) -> Value:
        return ops.reshape(v, shape=(*v.shape, *(1,) * (w.rank - 1))) if v.rank and v.shape != (1,) else v

    made = convolved(node, arranged(x - x_zero), arranged(w - first_axis(w_zero)), None)
    y = plain(made)
    if len(operands) > 8:
        y = y + plain(channels(cast_to(arranged(operands[8]), "float64"), y.rank))
    scale = w_scale if not w_scale.rank or w_scale.shape == (1,) else plain(channels(arranged(w_scale), y.rank))
    least, most = _limits(node.dtypes[7])
    return cast(
        ops.clip(ops.round(y * (x_scale * scale / y_scale)) + y_zero, least, most), CARRIED[node.dtypes[7] or ""]
    )


def _to_codes(node: Node) -> Arranged:
    is_coded = node.has(2) and has_codes(node, 2, 1)
    return quantized(node) if is_coded else on_plain(_quantize)(node)


def _from_codes(node: Node) -> Arranged:
    is_coded = node.has(2) and has_codes(node, 0, 1)
    return dequantized(node) if is_coded else on_plain(_dequantize)(node)


IMPORTS: Final[dict[str, Mapping]] = {
    "QuantizeLinear": _to_codes,
    "DequantizeLinear": _from_codes,
    "com.microsoft.QuantizeLinear": _to_codes,
    "com.microsoft.DequantizeLinear": _from_codes,
    "DynamicQuantizeLinear": on_plain(_dynamic),
    "QLinearMatMul": on_plain(_matmul),
    "QLinearConv": on_plain(_conv),
}

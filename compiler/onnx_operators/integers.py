"""Quantised numbers of eight bits as codes, and products of codes in integers.

A signed number is carried as the code 128 above it (`registry.ops.integers`). `Walk.codes` has the codes of such
tensors, beside their values for operators that read numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.exporters.onnx.call import Call, Export, Unmapped, aligned, named
from compiler.exporters.onnx.folding import vector_of
from compiler.exporters.onnx.tensors import Tensor
from compiler.frontends.arranged import Arranged, arranged, plain, pointwise
from compiler.frontends.channels import first, last
from compiler.frontends.extents import ONE, Extent, product
from compiler.frontends.onnx.known.constants import Constant
from compiler.frontends.onnx.node import Mapping, Node, cast
from compiler.frontends.reductions import reduced
from compiler.onnx_operators.conv import FILTER, IMAGE, integer_convolution, window_of, window_out, with_vectors
from compiler.onnx_operators.linalg import integer_product
from prograd_proto.result_types.integers import MAX_DEPTH
from registry import Value, ops

SIGNED_SHIFT: Final = 128
"""The code of the signed number 0."""

MAX_CODE: Final = 255

DTYPES: Final = ("uint8", "int8")

MATRIX_RANK: Final = 2

LINE_RANK: Final = 3
"""Axes of the filters of a convolution over one axis."""

IMAGE_RANK: Final = 4
"""Axes of the filters of a convolution over two axes."""


def has_codes(node: Node, number: int, scale: int) -> bool:
    """Return True if the walk computes in integers, and this operand is quantised to eight bits by one float32."""
    if not node.walk.integers or node.dtypes[number] not in DTYPES or node.dtypes[scale] != "float32":
        return False
    return all(extent.plain() == 1 for extent in node.shape(scale))


def codes(node: Node, number: int) -> Arranged:
    """Return the codes of an operand."""
    known = node.walk.codes.get(node.inputs[number])
    if known is not None:
        return known
    if isinstance(node.operands[number], Constant):
        return arranged(node.new(array_of(node, number)))
    x = node.tensor(number)
    if node.dtypes[number] == "uint8":
        return x
    return pointwise(lambda v: ops.cast(v + SIGNED_SHIFT, dtype="uint8"), x)


def array_of(node: Node, number: int) -> Any:
    """Return the codes of a constant."""
    array = np.asarray(node.constant(number))
    return (array.astype(np.int16) + SIGNED_SHIFT).astype(np.uint8) if array.dtype == np.int8 else array


def scalar(v: Value) -> Value:
    """Return a tensor of one element as a scalar."""
    return ops.reshape(v, shape=()) if v.rank else v


def kept(node: Node, y: Arranged, dtype: str | None) -> Arranged:
    """Note the codes of the first result, and return its numbers as they are carried."""
    name = node.outputs[0]
    node.walk.codes[name] = y
    node.walk.dtypes[name] = dtype
    return y if dtype == "uint8" else pointwise(lambda v: ops.cast(v, dtype="int32") - SIGNED_SHIFT, y)


def quantized(node: Node) -> Arranged:
    """Return the codes of a QuantizeLinear with one scale."""
    return _coded(node, node.tensor(0), 1)


def _coded(node: Node, x: Arranged, number: int) -> Arranged:
    """Return the codes of numbers by the scale that is an operand, and the zero point that is the next one."""
    scale, zero = scalar(node.value(number)), scalar(plain(codes(node, number + 1)))
    y = pointwise(lambda v: ops.quantize_linear(cast(v, "float32"), scale, zero), x)
    return kept(node, y, node.dtypes[number + 1])


def dynamic_codes(x: Value) -> tuple[Value, Value, Value]:
    """Return the codes of a tensor by its own range, with 0 in it, and their scale and zero point.

    The scale of zeros is 1, as in ONNX Runtime.
    """
    kept = ops.stop_gradient(x)
    least, most = ops.minimum(ops.min(kept), 0.0), ops.maximum(ops.max(kept), 0.0)
    scale = ops.where(most > least, (most - least) / float(MAX_CODE), 1.0)
    zero = ops.cast(ops.clip(ops.round(-least / scale), 0.0, float(MAX_CODE)), dtype="uint8")
    return ops.quantize_linear(kept, scale, zero), scale, zero


def dequantized(node: Node) -> Arranged:
    """Return the numbers of a DequantizeLinear with one scale."""
    scale, zero = scalar(node.value(1)), scalar(plain(codes(node, 2)))
    return pointwise(lambda v: ops.dequantize_linear(v, scale, zero), codes(node, 0))


def _conv(node: Node) -> Arranged:
    zeros = scalar(plain(codes(node, 2))), _filter_zeros(node, 5)
    return _finished(node, _convolved(node, 3, *zeros), first)


def _convolved(node: Node, number: int, x_zero: Value, w_zero: Value) -> Value:
    """Return the convolution of operand 0 with the filters of another operand, a constant; channels are last."""
    x, w = last(codes(node, 0)), np.moveaxis(array_of(node, number), (0, 1), (-1, -2))
    window = window_of(node, node.tensor(0), w.shape[:-2])
    is_line = w.ndim == LINE_RANK
    stride, dilation, padding = window.stride, window.dilation, window.padding
    if is_line:  # a line is an image of one row
        x, w = ops.reshape(x, shape=(x.shape[0], 1, *x.shape[1:])), w[None]
        stride, dilation, padding = (1, *stride), (1, *dilation), (0, padding[0], 0, padding[1])
    y = ops.integer_conv2d(
        x,
        node.new(np.ascontiguousarray(w)),
        x_zero,
        w_zero,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=int(node.attribute("group", 1)),
    )
    return ops.reshape(y, shape=(y.shape[0], *y.shape[2:])) if is_line else y


def _matmul(node: Node) -> Arranged:
    x, w = plain(codes(node, 0)), _matrix(node, 3)
    if x.rank < MATRIX_RANK or w.rank > x.rank or (w.rank > MATRIX_RANK and w.shape[:-2] != x.shape[:-2]):
        raise CompileError(
            f"a product in integers of {x.type} and {w.type}, which is not supported; leave out --integers"
        )
    sums = ops.integer_matmul(x, w, scalar(plain(codes(node, 2))), _filter_zeros(node, 5))
    return _finished(node, sums, arranged)


def _matrix(node: Node, number: int) -> Value:
    """Return the codes of a right operand, with columns last."""
    if not isinstance(node.operands[number], Constant):
        return plain(codes(node, number))
    array = array_of(node, number)
    return node.new(np.ascontiguousarray(array.T if node.attribute("transB", 0) else array))


def _filter_zeros(node: Node, number: int) -> Value:
    """Return the zero point of a filter: one, or one for each channel where they differ."""
    if not isinstance(node.operands[number], Constant):
        return scalar(plain(codes(node, number)))
    zero = array_of(node, number).reshape(-1)
    return node.new(zero[0] if (zero == zero[0]).all() else zero)


def _matmul_integer(node: Node) -> Arranged:
    """Return a MatMulInteger; shapes that `ops.integer_matmul` does not take are computed in float64."""
    shapes = node.shape(0), node.shape(1)
    is_stack = len(shapes[1]) > MATRIX_RANK
    fits = len(shapes[0]) >= MATRIX_RANK and len(shapes[1]) >= MATRIX_RANK and _has_small_zeros(node, shapes[1][-1])
    if not fits or (is_stack and shapes[0][:-2] != shapes[1][:-2]) or not _has_depth(shapes[1][-2:-1]):
        return integer_product(node)
    return arranged(ops.integer_matmul(plain(codes(node, 0)), _matrix(node, 1), *_both_zeros(node)))


def _conv_integer(node: Node) -> Arranged:
    """Return a ConvInteger; with filters that are no constant, or with more axes, it is computed in float64."""
    shape = node.shape(1)
    fits = isinstance(node.operands[1], Constant) and LINE_RANK <= len(shape) <= IMAGE_RANK
    if not fits or not _has_small_zeros(node, shape[0]) or not _has_depth(shape[1:]):
        return integer_convolution(node)
    return first(_convolved(node, 1, *_both_zeros(node)))


def _has_small_zeros(node: Node, channels: Extent) -> bool:
    """Return True if both operands have eight bits, and zero points for the whole of x and for w or its channels."""
    if any(node.dtypes[number] not in DTYPES for number in (0, 1)):
        return False
    sizes = [product(node.shape(number)) if node.has(number) else ONE for number in (2, 3)]
    is_constant = not node.has(3) or sizes[1] == ONE or isinstance(node.operands[3], Constant)
    return sizes[0] == ONE and sizes[1] in (ONE, channels) and is_constant


def _has_depth(extents: Sequence[Extent]) -> bool:
    depth = product(extents)
    return not depth.symbols and depth.number <= MAX_DEPTH


def _both_zeros(node: Node) -> tuple[Value, Value]:
    made = [
        _filter_zeros(node, number)
        if node.has(number)
        else node.new(np.uint8(SIGNED_SHIFT if node.dtypes[number - 2] == "int8" else 0))
        for number in (2, 3)
    ]
    return made[0], made[1]


def _finished(node: Node, sums: Value, as_in_model: Any) -> Arranged:
    """Add the bias, and requantise or scale sums whose last axis is the channels."""
    x_scale, w_scale = scalar(node.value(1)), node.value(4)
    w_scale = scalar(w_scale) if w_scale.shape == (1,) else w_scale
    relu = bool(node.attribute("relu", 0))
    if node.has(8) and node.dtypes[8] == "float32":
        y = ops.cast(sums, dtype="float32") * (x_scale * w_scale) + node.value(8)
        y = as_in_model(ops.relu(y) if relu else y)
        return _coded(node, y, 6) if node.has(6) else y
    if node.has(8):
        sums = sums + cast(plain(node.tensor(8)), "int32")
    if not node.has(6):
        y = ops.cast(sums, dtype="float32") * (x_scale * w_scale)
        return as_in_model(ops.relu(y) if relu else y)
    zero = scalar(plain(codes(node, 7)))
    y = ops.requantize(sums, x_scale, w_scale, scalar(node.value(6)), zero)
    return kept(node, as_in_model(ops.maximum(y, zero) if relu else y), node.dtypes[7])


def _mul(node: Node) -> Arranged:
    """Return the product of two tensors of codes: an exact product of differences, requantised by one factor."""
    of_x, of_w, of_y = (scalar(node.value(number)) for number in (1, 4, 6))
    x_zero, w_zero, zero = (scalar(plain(codes(node, number))) for number in (2, 5, 7))

    def product(x: Value, w: Value) -> Value:
        return ops.requantize(_differences(x, x_zero) * _differences(w, w_zero), of_x, of_w, of_y, zero)

    return kept(node, pointwise(product, codes(node, 0), codes(node, 3)), node.dtypes[7])


def _differences(v: Value, zero: Value) -> Value:
    return ops.cast(v, dtype="int32") - ops.cast(zero, dtype="int32")


def _average(node: Node) -> Arranged:
    """Return the mean of each channel.

    An exact sum of differences, requantised by one factor, which includes the count.

    Images whose extents have symbols are averaged in float32.
    """
    of_x, of_y = scalar(node.value(1)), scalar(node.value(3))
    x_zero, zero = (scalar(plain(codes(node, number))) for number in (2, 4))
    axes = list(range(2, len(node.shape(0))))
    count = product([node.shape(0)[axis] for axis in axes])

    def mean(v: Value, places: tuple[int, ...]) -> Value:
        if count.symbols:
            numbers = ops.dequantize_linear(v, of_x, x_zero)
            return ops.quantize_linear(ops.mean(numbers, axis=places, keepdims=True), of_y, zero)
        sums = ops.cast(ops.sum(_differences(v, x_zero), axis=places, keepdims=True), dtype="int32")
        return ops.requantize(sums, of_x, node.new(np.float32(1)), of_y * float(count.number), zero)

    return kept(node, reduced(mean, codes(node, 0), axes, keepdim=True), node.dtypes[4])


IMPORTS: Final[dict[str, Mapping]] = {
    "MatMulInteger": _matmul_integer,
    "ConvInteger": _conv_integer,
    "prograd.IntegerConv": _conv,
    "prograd.IntegerMatMul": _matmul,
    "prograd.IntegerGemm": _matmul,
    "prograd.IntegerMul": _mul,
    "prograd.IntegerAverage": _average,
}


def _quantize_out(call: Call) -> Tensor:
    """Return a QuantizeLinear; several scales divide x before it, so that its own scale is 1."""
    _require_one_zero(call, 2)
    names, order = aligned(call)
    if not _is_single(call, 1):
        return call.result(_rounded(call, call.add("Div", *names[:2]), 2), order)
    return call.result(call.add("QuantizeLinear", names[0], *(_scalar_out(call, i) for i in (1, 2))), order)


def _dequantize_out(call: Call) -> Tensor:
    names, order = aligned(call)
    if _is_single(call, 1) and _is_single(call, 2):
        return call.result(call.add("DequantizeLinear", names[0], *(_scalar_out(call, i) for i in (1, 2))), order)
    apart = call.add("Sub", call.cast(names[0], "float32"), call.cast(names[2], "float32"))
    return call.result(call.add("Mul", apart, names[1]), order)


def _requantize_out(call: Call) -> Tensor:
    _require_one_zero(call, 4)
    names, order = aligned(call)
    factor = call.add("Div", call.add("Mul", names[1], names[2]), names[3])
    return call.result(_rounded(call, call.add("Mul", call.cast(names[0], "float32"), factor), 4), order)


def _rounded(call: Call, name: str, zero: int) -> str:
    return call.add("QuantizeLinear", name, call.number(1.0, "float32"), _scalar_out(call, zero))


def _require_one_zero(call: Call, number: int) -> None:
    if not _is_single(call, number):
        raise Unmapped("has several zero points")


def _is_single(call: Call, number: int) -> bool:
    return all(extent == 1 for extent in call.tensor(number).shape)


def _scalar_out(call: Call, number: int) -> str:
    name = call.plain(number)
    return call.graph.reshaped(name, ()) if call.tensor(number).rank else name


def _conv_out(call: Call) -> Tensor:
    operands = call.ordered(0, IMAGE), call.ordered(1, FILTER), call.plain(2), call.plain(3)
    return call.result(call.add("ConvInteger", *operands, **window_out(call)), IMAGE)


def scaled_product(call: Call, *bias: str) -> Tensor | None:
    """Return a product between pairs of quantisation, for sums that a mul scales to float32; None for all others.

    Runtimes of ONNX multiply the integers of such pairs. A convolution may add a `bias`, which is a name in the graph.
    """
    sums, factor = _sums_of(call), call.made_by(1, "mul") if len(call.inputs) > 1 else None
    codes = sums and _codes_of(sums)
    if sums is None or factor is None or codes is None or not _is_single(codes, 1) or not _is_single(sums, 2):
        return None
    zero, scales = sums.tensor(3), factor.tensor(1)
    is_own = codes.inputs[1] == factor.inputs[0] and codes.inputs[2] == sums.inputs[2]
    if not is_own or zero.array is None or zero.rank or scales.shape != sums.tensor(1).shape[-1:]:
        return None
    pair = _scalar_out(codes, 1), _scalar_out(codes, 2)
    weights = vector_of(factor, 1), call.graph.constant(np.full(scales.type.static_shape, zero.array, np.uint8))
    if sums.op_type == "integer_matmul":
        if bias:
            return None
        x = call.add("DequantizeLinear", sums.plain(0), *pair)
        w = call.add("DequantizeLinear", sums.plain(1), *weights, axis=1)
        return call.result(call.add("MatMul", x, w), range(len(call.type.shape)))
    x = call.add("DequantizeLinear", sums.ordered(0, IMAGE), *pair)
    w = call.add("DequantizeLinear", sums.ordered(1, FILTER), *weights, axis=0)
    return call.result(call.add("Conv", x, w, *bias, **window_out(sums)), IMAGE)


def scaled_with_bias(call: Call) -> Tensor | None:
    """Return a convolution between pairs of quantisation to which a vector of channels is added, as one node."""
    sums = ((made, number) for made, number in with_vectors(call, "mul") if _sums_of(made))
    return next((scaled_product(made, vector_of(call, 1 - number)) for made, number in sums), None)


def _codes_of(sums: Call) -> Call | None:
    """Return the op that quantised the left operand of a product, before ops that only choose or move codes."""
    made = sums.producer(0)
    while made is not None and made.op_type in ("max_pool2d", "reshape", "transpose"):
        made = made.producer(0)
    return made if made is not None and made.op_type == "quantize_linear" else None


def _sums_of(call: Call) -> Call | None:
    """Return the product of integers whose sums an op reads as float32."""
    cast = call.made_by(0, "cast")
    return cast and cast.made_by(0, "integer_matmul", "integer_conv2d")


EXPORTS: Final[dict[str, Export]] = {
    "quantize_linear": _quantize_out,
    "dequantize_linear": _dequantize_out,
    "requantize": _requantize_out,
    "integer_matmul": named(lambda call, *names: call.add("MatMulInteger", *names)),
    "integer_conv2d": _conv_out,
}

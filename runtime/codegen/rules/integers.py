"""Numbers of eight bits with a scale and a zero point, and exact products of them.

Codes are rounded by a sum without bits for a fraction: numbers are clipped first, so they are small.
"""

from __future__ import annotations

from typing import Final

from prograd_proto import TensorType
from runtime.codegen.ir import FLOAT32, INT32, UINT8, Value
from runtime.codegen.ir.words import bits, convert, minimum, where
from runtime.codegen.kernels.integers.convolution import Convolution
from runtime.codegen.kernels.integers.depthwise import Depthwise
from runtime.codegen.kernels.integers.depthwise_words import DepthwiseWords
from runtime.codegen.kernels.integers.shape import IntegerShape, shape_of_convolution, shape_of_product
from runtime.codegen.kernels.op_types import OpTypes
from runtime.codegen.kernels.steps import KernelSteps
from runtime.codegen.machine import Target
from runtime.codegen.rules.decomposition import DecompositionBuilder, SymbolicTensor
from runtime.codegen.rules.rule import RULES, CustomKernel, Decomposition, pointwise

WHOLE: Final = 1.5 * 2.0**23
"""A number whose sum with a small one has no bits for a fraction."""

WHOLE_BITS: Final = 0x4B400000
"""Its bits: those of the sum are as much larger as the small number is."""

MAX_CODE: Final = 255.0


def quantize_linear(x: Value, scale: Value, zero: Value) -> Value:
    return _to_codes(x / scale, zero)


def dequantize_linear(x: Value, scale: Value, zero: Value) -> Value:
    return convert(convert(x, INT32) - convert(zero, INT32), FLOAT32) * scale


def requantize(
    c: DecompositionBuilder,
    x: SymbolicTensor,
    x_scale: SymbolicTensor,
    w_scale: SymbolicTensor,
    scale: SymbolicTensor,
    zero: SymbolicTensor,
) -> SymbolicTensor:
    """Multiply sums by one factor, which is computed apart."""
    factor = c.elementwise(requantization_factor, x_scale, w_scale, scale)
    return c.elementwise(requantized, x, factor, zero, dtype="uint8")


def requantization_factor(x_scale: Value, w_scale: Value, scale: Value) -> Value:
    """Return the factor of sums."""
    return x_scale * w_scale / scale


def requantized(x: Value, factor: Value, zero: Value) -> Value:
    """Return the codes of sums."""
    return _to_codes(convert(x, FLOAT32) * factor, zero)


def _to_codes(x: Value, zero: Value) -> Value:
    shift = convert(zero, INT32)
    least = convert(0 - shift, FLOAT32)
    x = minimum(where(x > least, x, least), least + MAX_CODE)  # NaN becomes the least
    whole = bits(x + WHOLE, INT32) - WHOLE_BITS
    return convert(whole + shift, UINT8)


def matmul(target: Target, op: OpTypes) -> KernelSteps:
    """Return the steps of a product."""
    x, w, zero = map(op.operand, (0, 1, 3))
    return _steps(target, shape_of_product(x, w), zero)


def convolution(target: Target, op: OpTypes) -> KernelSteps:
    """Return the steps of a convolution."""
    x, w, zero = map(op.operand, (0, 1, 3))
    return _steps(target, shape_of_convolution(x, w, op.outputs[0], op.attributes), zero)


def _steps(target: Target, shape: IntegerShape, zero: TensorType) -> KernelSteps:
    kind = Depthwise if Depthwise.applies(shape) else Convolution
    kind = DepthwiseWords if DepthwiseWords.applies(target, shape) else kind
    return kind(target, shape, has_many_zeros=zero.nbytes > 1).steps()


pointwise("quantize_linear", quantize_linear, {"float32", "uint8"})
pointwise("dequantize_linear", dequantize_linear, {"float32", "uint8"})
RULES["requantize"] = Decomposition(requantize, frozenset({"int32", "float32", "uint8"}))
RULES["integer_matmul"] = CustomKernel(matmul, frozenset({"uint8"}), takes_epilogue=True)
RULES["integer_conv2d"] = CustomKernel(convolution, frozenset({"uint8"}), takes_epilogue=True)

"""Numbers of eight bits with a scale and a zero point, and exact products of them, by products of float64.

Sums of less than 2**31 are exact in float64 in any order, so BLAS gives the integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, Final

import numpy as np

import runtime.engines.reference.kernels.conv as conv
from prograd_proto import TensorType
from runtime.engines.reference.kernels.chunks import blocks, vectors
from runtime.engines.reference.kernels.linalg import as_matrix
from runtime.kernel import Array, kernel
from runtime.row_rules import Operands, first_operand, has_rows, pointwise

MAX_CODE: Final = 255

Numbers = tuple[int, ...]


def quantize_scratch(x: TensorType) -> list[TensorType]:
    return vectors(x, "float32", "float32")


@kernel(scratch=quantize_scratch, rows=pointwise)
def quantize_linear(x: Array, scale: Array, zero: Array, *, out: Array, scratch: list[Array]) -> None:
    for part, factor, shift, codes, number, wide in blocks([x, scale, zero], out, scratch):
        np.divide(part, factor, number)
        _to_codes(number, shift, codes, wide)


def dequantize_scratch(x: TensorType) -> list[TensorType]:
    return vectors(x, "float32")


@kernel(scratch=dequantize_scratch, rows=pointwise)
def dequantize_linear(x: Array, scale: Array, zero: Array, *, out: Array, scratch: list[Array]) -> None:
    for codes, factor, shift, number, wide in blocks([x, scale, zero], out, scratch):
        np.copyto(wide, shift)
        np.copyto(number, codes)
        np.subtract(number, wide, number)
        np.multiply(number, factor, number)


@kernel(scratch=quantize_scratch, rows=pointwise)
def requantize(
    x: Array, x_scale: Array, w_scale: Array, scale: Array, zero: Array, *, out: Array, scratch: list[Array]
) -> None:
    for part, of_x, of_w, of_y, shift, codes, number, wide in blocks([x, x_scale, w_scale, scale, zero], out, scratch):
        np.multiply(of_x, of_w, wide)
        np.divide(wide, of_y, wide)
        np.copyto(number, part, casting="unsafe")
        np.multiply(number, wide, number)
        _to_codes(number, shift, codes, wide)


def _to_codes(number: Array, zero: Array, codes: Array, wide: Array) -> None:
    """Write numbers as codes; `number` and `wide` are scratch."""
    np.copyto(wide, zero)
    np.rint(number, number)
    np.add(number, wide, number)
    np.fmax(number, 0, number)  # NaN becomes 0
    np.minimum(number, MAX_CODE, out=number)
    np.copyto(codes, number, casting="unsafe")


def integer_matmul_scratch(x: TensorType, w: TensorType, out: TensorType) -> list[TensorType]:
    return [TensorType("float64", each.shape) for each in (x, w, out)]


def integer_matmul_rows(operands: Operands, result: tuple[int, ...], attributes: Mapping[str, Any]) -> bool:
    """Return True for rows times one matrix, or stacks of rows times stacks of rows."""
    x, w, *zeros = operands
    if x is None or w is None or not x.has_rows or any(has_rows(zero) for zero in zeros):
        return False
    return len(w.shape) > 2 if w.has_rows else len(w.shape) == 2


def integer_matmul_operations(x: TensorType, out: TensorType) -> int:
    return 2 * prod(out.static_shape) * x.static_shape[-1]


@kernel(scratch=integer_matmul_scratch, rows=integer_matmul_rows, operations=integer_matmul_operations)
def integer_matmul(x: Array, w: Array, x_zero: Array, w_zero: Array, *, out: Array, scratch: list[Array]) -> None:
    left, right, sums = scratch
    np.subtract(x, x_zero, left, dtype=np.float64)
    np.subtract(w, w_zero, right, dtype=np.float64)
    if w.ndim == 2:
        left, sums, out = as_matrix(left), as_matrix(sums), as_matrix(out)
    np.matmul(left, right, sums)
    np.copyto(out, sums, casting="unsafe")


def integer_conv2d_scratch(
    x: TensorType, w: TensorType, stride: Numbers, padding: Numbers, groups: int, out: TensorType
) -> list[TensorType]:
    x, w, sums = (TensorType("float64", each.shape) for each in (x, w, out))
    return [x, w, sums, *conv.conv2d_scratch(x, w, stride, padding, groups, sums)]


@kernel(scratch=integer_conv2d_scratch, rows=first_operand, operations=conv.conv2d_operations)
def integer_conv2d(
    x: Array,
    w: Array,
    x_zero: Array,
    w_zero: Array,
    *,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    out: Array,
    scratch: list[Array],
) -> None:
    image, filters, sums, *more = scratch
    np.subtract(x, x_zero, image, dtype=np.float64)
    np.subtract(w, w_zero, filters, dtype=np.float64)
    window = dict(stride=stride, padding=padding, dilation=dilation)
    conv.conv2d(image, filters, groups=groups, out=sums, scratch=more, **window)
    np.copyto(out, sums, casting="unsafe")

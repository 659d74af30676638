"""Numbers of eight bits with a scale and a zero point, and exact products of them, by products of float64.

Sums of less than 2**31 are exact in float64 in any order, so BLAS gives the integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

import runtime.engines.reference.kernels.conv as conv
from prograd_proto import TensorType
from runtime.engines.reference.kernels.chunks import CHUNK, blocks
from runtime.engines.reference.kernels.linalg import as_matrix
from runtime.engines.reference.kernels.pointwise import broadcast
from runtime.kernel import Array, Types, kernel, require, types
from runtime.row_rules import Operands, first_operand, has_rows, pointwise

MAX_DEPTH: Final = 33025
"""Most products of differences of two codes whose sum an int32 always holds."""

MAX_CODE: Final = 255


def _require_parameters(x: TensorType, dtype: str, scales: Sequence[TensorType], zero: TensorType) -> None:
    require(x.dtype == dtype, f"x is {x}, not {dtype}")
    for scale in scales:
        require(scale.dtype == "float32" and broadcast(x, scale) == x.shape, f"the scale is {scale} and x is {x}")
    require(zero.dtype == "uint8" and broadcast(x, zero) == x.shape, f"the zero point is {zero} and x is {x}")


def _vectors(x: TensorType, *dtypes: str) -> list[TensorType]:
    """Return scratch for a block of x."""
    return [TensorType(dtype, (min(CHUNK, prod(x.static_shape)),)) for dtype in dtypes]


def quantize_linear_rule(x: TensorType, scale: TensorType, zero: TensorType) -> Types:
    _require_parameters(x, "float32", [scale], zero)
    return types(TensorType("uint8", x.shape), scratch=_vectors(x, "float32", "float32"))


@kernel(quantize_linear_rule, rows=pointwise)
def quantize_linear(x: Array, scale: Array, zero: Array, *, out: Array, scratch: list[Array]) -> None:
    for part, factor, shift, codes, number, wide in blocks([x, scale, zero], out, scratch):
        np.divide(part, factor, number)
        _to_codes(number, shift, codes, wide)


def dequantize_linear_rule(x: TensorType, scale: TensorType, zero: TensorType) -> Types:
    _require_parameters(x, "uint8", [scale], zero)
    return types(TensorType("float32", x.shape), scratch=_vectors(x, "float32"))


@kernel(dequantize_linear_rule, rows=pointwise)
def dequantize_linear(x: Array, scale: Array, zero: Array, *, out: Array, scratch: list[Array]) -> None:
    for codes, factor, shift, number, wide in blocks([x, scale, zero], out, scratch):
        np.copyto(wide, shift)
        np.copyto(number, codes)
        np.subtract(number, wide, number)
        np.multiply(number, factor, number)


def requantize_rule(
    x: TensorType, x_scale: TensorType, w_scale: TensorType, scale: TensorType, zero: TensorType
) -> Types:
    _require_parameters(x, "int32", [x_scale, w_scale, scale], zero)
    return types(TensorType("uint8", x.shape), scratch=_vectors(x, "float32", "float32"))


@kernel(requantize_rule, rows=pointwise)
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


def _require_zeros(x_zero: TensorType, w_zero: TensorType, columns: int | str) -> None:
    require(x_zero.dtype == "uint8" and x_zero.shape == (), f"x_zero is {x_zero}, not a scalar of uint8")
    fits = w_zero.dtype == "uint8" and w_zero.shape in ((), (columns,))
    require(fits, f"w_zero is {w_zero}, not uint8 with the shape () or ({columns},)")


def integer_matmul_rule(x: TensorType, w: TensorType, x_zero: TensorType, w_zero: TensorType) -> Types:
    require(x.dtype == w.dtype == "uint8", f"x is {x} and w is {w}; both must be uint8")
    require(x.rank >= 2 and w.rank >= 2, f"x is {x} and w is {w}; both need two axes or more")
    require(w.rank == 2 or w.shape[:-2] == x.shape[:-2], f"w is {w}, whose leading axes are not those of {x}")
    depth = w.shape[-2]
    require(x.shape[-1] == depth, f"inner sizes differ: {x.shape[-1]} and {depth}")
    require(isinstance(depth, int) and int(depth) <= MAX_DEPTH, f"sums have {depth} products, at most {MAX_DEPTH}")
    _require_zeros(x_zero, w_zero, w.shape[-1])
    y = TensorType("int32", (*x.shape[:-1], w.shape[-1]))
    return types(y, scratch=[TensorType("float64", each.shape) for each in (x, w, y)])


def integer_matmul_rows(operands: Operands, result: tuple[int, ...], attributes: Mapping[str, Any]) -> bool:
    """Return True for rows times one matrix, or stacks of rows times stacks of rows."""
    x, w, *zeros = operands
    if x is None or w is None or not x.has_rows or any(has_rows(zero) for zero in zeros):
        return False
    return len(w.shape) > 2 if w.has_rows else len(w.shape) == 2


def integer_matmul_operations(x: TensorType, out: TensorType) -> int:
    return 2 * prod(out.static_shape) * x.static_shape[-1]


@kernel(integer_matmul_rule, rows=integer_matmul_rows, operations=integer_matmul_operations)
def integer_matmul(x: Array, w: Array, x_zero: Array, w_zero: Array, *, out: Array, scratch: list[Array]) -> None:
    left, right, sums = scratch
    np.subtract(x, x_zero, left, dtype=np.float64)
    np.subtract(w, w_zero, right, dtype=np.float64)
    if w.ndim == 2:
        left, sums, out = as_matrix(left), as_matrix(sums), as_matrix(out)
    np.matmul(left, right, sums)
    np.copyto(out, sums, casting="unsafe")


def integer_conv2d_rule(
    x: TensorType,
    w: TensorType,
    x_zero: TensorType,
    w_zero: TensorType,
    *,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> Types:
    require(x.dtype == w.dtype == "uint8", f"x is {x} and w is {w}; both must be uint8")
    require(x.rank == w.rank == 4, f"x is {x} and w is {w}; both need four axes")
    depth = prod(w.static_shape[:3])
    require(depth <= MAX_DEPTH, f"sums have {depth} products, at most {MAX_DEPTH}")
    _require_zeros(x_zero, w_zero, w.shape[3])
    wide = [TensorType("float64", each.shape) for each in (x, w)]
    window = dict(stride=stride, padding=padding, dilation=dilation)
    [sums], scratch = conv.conv2d_rule(*wide, groups=groups, **window)
    return types(TensorType("int32", sums.shape), scratch=[*wide, sums, *scratch])


def integer_conv2d_operations(w: TensorType, out: TensorType) -> int:
    return 2 * prod(out.static_shape) * prod(w.static_shape[:3])


@kernel(integer_conv2d_rule, rows=first_operand, operations=integer_conv2d_operations)
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

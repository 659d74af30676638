"""Products of matrices, by NumPy's BLAS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isqrt, prod
from typing import Any

import numpy as np

from prograd_proto import TensorType
from runtime.engines.reference.kernels.factors import (
    BLOCK_DEPTH,
    blockwise_matmul,
    widened,
    widened_types,
)
from runtime.kernel import Array, kernel
from runtime.row_rules import Operands


def matmul_scratch(a: TensorType, b: TensorType, transpose_a: bool, out: TensorType) -> list[TensorType]:
    return _scratch(a, b, out, a.static_shape[-2 if transpose_a else -1])


def _scratch(a: TensorType, b: TensorType, y: TensorType, depth: int | str) -> list[TensorType]:
    """Return the types of widened factors, and of the result of a block if there are several."""
    wide = widened_types(a, b)
    return [*wide, y] if wide and isinstance(depth, int) and depth > BLOCK_DEPTH else wide


def matmul_rows(operands: Operands, result: tuple[int, ...], attributes: Mapping[str, Any]) -> bool:
    """Return True for rows times one matrix, or stacks of rows times stacks of rows or the same for all."""
    a, b = operands
    if a is None or b is None or not a.has_rows or len(a.shape) != len(result):
        return False
    if b.has_rows:
        return len(a.shape) > 2 and len(b.shape) == len(result)
    return len(b.shape) <= 2 and (len(a.shape) > 2 or not attributes["transpose_a"])


def matmul_operations(a: TensorType, b: TensorType, out: TensorType) -> int:
    m_k, k_n, m_n = (prod(type.static_shape[-2:]) for type in (a, b, out))
    return 2 * prod(out.static_shape) * isqrt(m_k * k_n // max(1, m_n))  # (m k) (k n) / (m n) = k k, transposed or not


@kernel(scratch=matmul_scratch, rows=matmul_rows, operations=matmul_operations)
def matmul(
    a: Array, b: Array, *, transpose_a: bool, transpose_b: bool, out: Array, scratch: Sequence[Array] = ()
) -> None:
    if scratch:
        a, b = widened(a, scratch[0]), widened(b, scratch[1])
    if a.ndim > 2 and b.ndim == 2 and not transpose_a:  # one product of a tall matrix, not many small ones
        a, out = as_matrix(a), as_matrix(out)
    left, right = a.swapaxes(-1, -2) if transpose_a else a, b.swapaxes(-1, -2) if transpose_b else b
    if scratch:
        blockwise_matmul(left, right, out, scratch[2:])
    else:
        np.matmul(left, right, out)


def outer_sum_scratch(a: TensorType, b: TensorType, out: TensorType) -> list[TensorType]:
    return _scratch(a, b, out, prod(a.static_shape[:-1]))


def outer_sum_operations(a: TensorType, out: TensorType) -> int:
    return 2 * prod(a.static_shape) * out.static_shape[-1]


@kernel(scratch=outer_sum_scratch, operations=outer_sum_operations)
def outer_sum(a: Array, b: Array, *, out: Array, scratch: Sequence[Array] = ()) -> None:
    if scratch:
        left, right = widened(a, scratch[0]), widened(b, scratch[1])
        blockwise_matmul(as_matrix(left).T, as_matrix(right), out, scratch[2:])
    else:
        np.matmul(as_matrix(a).T, as_matrix(b), out)


def as_matrix(x: Array) -> Array:
    """Return the view of x with all axes but the last merged into one."""
    return x.reshape(prod(x.shape[:-1]), x.shape[-1])

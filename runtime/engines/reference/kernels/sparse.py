"""Products with sparse rows, row by row: what a row reads or adds to is a few rows of a matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from prograd_proto import TensorType
from runtime.engines.reference.kernels.index import check_range, count_up
from runtime.kernel import Array, kernel
from runtime.row_rules import Operands, has_rows


def sparse_matmul_scratch(positions: TensorType, w: TensorType) -> list[TensorType]:
    return [TensorType(w.dtype, (positions.static_shape[1], w.static_shape[1]))]


def sparse_rows(operands: Operands, result: tuple[int, ...], attributes: Mapping[str, Any]) -> bool:
    positions, values, w = operands
    return all(x is not None and x.is_row_by_row for x in (positions, values)) and not has_rows(w)


def sparse_operations(values: TensorType, w: TensorType) -> int:
    return 2 * values.static_shape[0] * values.static_shape[1] * w.static_shape[1]


@kernel(scratch=sparse_matmul_scratch, rows=sparse_rows, operations=sparse_operations)
def sparse_matmul(positions: Array, values: Array, w: Array, *, out: Array, scratch: list[Array]) -> None:
    check_range(positions, len(w))
    [terms] = scratch
    for row, factors, y in zip(positions, values, out, strict=True):
        present = factors != 0
        count = int(np.count_nonzero(present))
        some = terms[:count]
        np.take(w, row[present], 0, some, "clip")
        np.multiply(some, factors[present, None], some)
        np.add.reduce(some, 0, out=y)


def sparse_outer_sum_scratch(positions: TensorType, b: TensorType) -> list[TensorType]:
    terms = (positions.static_shape[1], b.static_shape[1])
    return [TensorType(b.dtype, terms), TensorType("int64", terms), TensorType("int64", terms[1:])]


def sparse_outer_operations(values: TensorType, b: TensorType) -> int:
    return 2 * values.static_shape[0] * values.static_shape[1] * b.static_shape[1]


@kernel(scratch=sparse_outer_sum_scratch, operations=sparse_outer_operations)
def sparse_outer_sum(positions: Array, values: Array, b: Array, *, size: int, out: Array, scratch: list[Array]) -> None:
    """Add at flat indices, one by one in row-major order, as `scatter_add` does."""
    check_range(positions, size)
    terms, places, columns = scratch
    count_up(columns, 1)
    out.fill(0)
    for row, factors, x in zip(positions, values, b, strict=True):
        present = factors != 0
        count = int(np.count_nonzero(present))
        some, flat = terms[:count], places[:count]
        np.copyto(some, x)
        np.multiply(some, factors[present, None], some)
        np.multiply(row[present, None], out.shape[1], flat, casting="unsafe")
        np.add(flat, columns, flat)
        np.add.at(out.reshape(-1), flat.reshape(-1), some.reshape(-1))

"""Products with sparse rows, row by row: what a row reads or adds to is a few rows of a matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS
from runtime.engines.reference.kernels.index import check_range, count_up
from runtime.kernel import Array, Types, kernel, require, types
from runtime.row_rules import Operands, has_rows


def sparse_matmul_rule(positions: TensorType, values: TensorType, w: TensorType) -> Types:
    require_rows(positions, values)
    require(w.rank == 2 and w.dtype in FLOATS and w.dtype == values.dtype, f"w is {w}, the values are {values}")
    (rows, count), width = positions.static_shape, w.static_shape[1]
    return types(TensorType(w.dtype, (rows, width)), scratch=[TensorType(w.dtype, (count, width))])


def sparse_rows(operands: Operands, result: tuple[int, ...], attributes: Mapping[str, Any]) -> bool:
    positions, values, w = operands
    return all(x is not None and x.is_row_by_row for x in (positions, values)) and not has_rows(w)


def sparse_operations(values: TensorType, w: TensorType) -> int:
    return 2 * values.static_shape[0] * values.static_shape[1] * w.static_shape[1]


@kernel(sparse_matmul_rule, rows=sparse_rows, operations=sparse_operations)
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


def sparse_outer_sum_rule(positions: TensorType, values: TensorType, b: TensorType, *, size: int) -> Types:
    require_rows(positions, values)
    rows, count = positions.static_shape
    fits = b.rank == 2 and b.static_shape[0] == rows and b.dtype in FLOATS and b.dtype == values.dtype
    require(fits, f"b is {b}, the values are {values}")
    require(size >= 0, f"size is {size}")
    terms = (count, b.static_shape[1])
    scratch = [TensorType(b.dtype, terms), TensorType("int64", terms), TensorType("int64", terms[1:])]
    return types(TensorType(b.dtype, (size, terms[1])), scratch=scratch)


def sparse_outer_operations(values: TensorType, b: TensorType) -> int:
    return 2 * values.static_shape[0] * values.static_shape[1] * b.static_shape[1]


@kernel(sparse_outer_sum_rule, operations=sparse_outer_operations)
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


def require_rows(positions: TensorType, values: TensorType) -> None:
    """Refuse positions and values that are not those of sparse rows."""
    require(positions.dtype in ("int32", "int64"), f"positions is {positions.dtype}")
    require(positions.rank == 2 and positions.shape == values.shape, f"positions is {positions}, values is {values}")

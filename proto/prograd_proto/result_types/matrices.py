"""Products of matrices, dense and sparse, triangles, and decompositions."""

from __future__ import annotations

from prograd_proto.dtypes import ITEM_BYTES, DTypeName
from prograd_proto.errors import require
from prograd_proto.result_types.rule import rule, rule_of, rule_with_halves
from prograd_proto.result_types.shapes import (
    Typed,
    broadcast_shapes,
    factor_sum_dtype,
    require_equal_dtypes,
    require_float,
    size_known,
)
from prograd_proto.tensor_types import Shape, TensorType


@rule_with_halves
def matmul(a: TensorType, b: TensorType, *, transpose_a: bool, transpose_b: bool) -> TensorType:
    m, inner_a = _matrix(a, transpose_a)
    inner_b, n = _matrix(b, transpose_b)
    dtype = factor_sum_dtype(a, b)
    fits = f"write transpose_b={not transpose_b}" if inner_a == n else f"b needs {inner_a} rows"
    require(inner_a == inner_b, f"inner sizes differ: {inner_a} and {inner_b}; {fits}")
    return TensorType(dtype, (*broadcast_shapes(a.shape[:-2], b.shape[:-2]), m, n))


@rule_with_halves
def outer_sum(a: TensorType, b: TensorType) -> TensorType:
    require(a.rank >= 2 and b.rank >= 2, "both operands need two axes or more")
    dtype = factor_sum_dtype(a, b)
    require(a.shape[:-1] == b.shape[:-1], "the leading axes differ")
    return TensorType(dtype, (a.shape[-1], b.shape[-1]))


@rule
def sparse_matmul(positions: TensorType, values: TensorType, w: TensorType) -> TensorType:
    _require_rows(positions, values)
    require(w.rank == 2, f"w is {w}, and not a matrix")
    require_float(w)
    require_equal_dtypes(values, w)
    return TensorType(w.dtype, (positions.shape[0], w.shape[1]))


@rule
def sparse_outer_sum(positions: TensorType, values: TensorType, b: TensorType, *, size: int) -> TensorType:
    _require_rows(positions, values)
    require(b.rank == 2 and b.shape[0] == values.shape[0], f"b is {b}, and has not the rows of {values}")
    require_float(b)
    require_equal_dtypes(values, b)
    require(size >= 0, f"size is {size}, and negative")
    return TensorType(b.dtype, (size, b.shape[1]))


@rule_of("tril", "triu")
def triangle(x: TensorType, *, offset: int) -> TensorType:
    require(x.rank >= 2, f"x has {x.rank} axes and needs two or more")
    return x


@rule
def eye(*, shape: Shape, offset: int, dtype: DTypeName) -> TensorType:
    require(len(shape) >= 2, f"shape has {len(shape)} extents and needs two or more")
    require(dtype in ITEM_BYTES, f"{dtype!r} is not a dtype")
    return TensorType(dtype, shape)


@rule_of("cholesky", "inverse")
def like_square(x: TensorType) -> TensorType:
    require_square("x", x)
    return x


@rule
def triangular_solve(a: TensorType, b: TensorType, *, lower: bool, transpose: bool, unit_diagonal: bool) -> TensorType:
    return TensorType(a.dtype, _solved(a, b))


@rule
def solve(a: TensorType, b: TensorType) -> TensorType:
    return TensorType(a.dtype, _solved(a, b))


@rule
def determinant(x: TensorType) -> TensorType:
    require_square("x", x)
    return TensorType(x.dtype, x.shape[:-2])


@rule
def log_determinant(x: TensorType) -> tuple[TensorType, TensorType]:
    require_square("x", x)
    y = TensorType(x.dtype, x.shape[:-2])
    return y, y


@rule
def qr(x: TensorType, *, complete: bool) -> tuple[TensorType, TensorType]:
    rows, columns = matrix_extents(x)
    count = rows if complete else min(rows, columns)
    return TensorType(x.dtype, (*x.shape[:-1], count)), TensorType(x.dtype, (*x.shape[:-2], count, columns))


@rule
def svd(x: TensorType) -> tuple[TensorType, TensorType, TensorType]:
    rows, columns = matrix_extents(x)
    count = min(rows, columns)
    u, s, v = (*x.shape[:-1], count), (*x.shape[:-2], count), (*x.shape[:-2], columns, count)
    return TensorType(x.dtype, u), TensorType(x.dtype, s), TensorType(x.dtype, v)


@rule
def eigh(x: TensorType) -> tuple[TensorType, TensorType]:
    require_square("x", x)
    return TensorType(x.dtype, x.shape[:-1]), x


@rule
def pseudo_inverse(x: TensorType, *, relative: float, absolute: float) -> TensorType:
    rows, columns = matrix_extents(x)
    require(
        min(relative, absolute) >= 0, f"relative is {relative:g} and absolute is {absolute:g}; neither may be below 0"
    )
    return TensorType(x.dtype, (*x.shape[:-2], columns, rows))


def _matrix(x: TensorType, transposed: bool) -> tuple[int | str, int | str]:
    require(x.rank >= 2, f"an operand has {x.rank} axes and needs two or more")
    rows, columns = x.shape[-2:]
    return (columns, rows) if transposed else (rows, columns)


def _require_rows(positions: TensorType, values: TensorType) -> None:
    require(positions.dtype in ("int32", "int64"), f"positions are int32 or int64, not {positions.dtype}")
    require(
        positions.rank == 2 and positions.shape == values.shape,
        f"positions are {positions} and values {values}; both have the shape [rows, count]",
    )


def require_square(name: str, x: TensorType) -> None:
    require_float(x)
    require(x.rank >= 2, f"{name} has {x.rank} axes and needs two or more")
    rows, columns = x.shape[-2:]
    require(rows == columns, f"{name} has {rows} rows and {columns} columns; it must be square")


def _solved(a: TensorType, b: TensorType) -> Shape:
    require_equal_dtypes(a, b)
    require_square("a", a)
    require(b.rank >= 2, f"b has {b.rank} axes and needs two or more; a vector is a matrix of one column")
    require(a.shape[-1] == b.shape[-2], f"a has {a.shape[-1]} rows, b has {b.shape[-2]}")
    return (*broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])


def matrix_extents(x: Typed) -> tuple[int, int]:
    """Return the number of rows and of columns."""
    require_float(x)
    require(x.rank >= 2, f"x has {x.rank} axes and needs two or more")
    rows, columns = (size_known(extent, "the extent of a matrix") for extent in x.shape[-2:])
    return rows, columns

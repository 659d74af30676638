"""Elements on, above and below the diagonals of matrices."""

from __future__ import annotations

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import ITEM_BYTES, DTypeName
from prograd_proto.tensor_types import Shape
from runtime.engines.reference.kernels.index import count_up
from runtime.engines.reference.kernels.windows import small_buffers
from runtime.kernel import Array, Types, kernel, require, types


def triangle_rule(x: TensorType, *, offset: int) -> Types:
    require(x.rank >= 2, f"x is {x} and needs two axes or more")
    rows, columns = x.static_shape[-2:]
    return types(
        x,
        scratch=[
            TensorType("int64", (rows, 1)),
            TensorType("int64", (columns,)),
            TensorType("bool", (rows, columns)),
        ],
    )


@kernel(triangle_rule, in_place=[(0, 0)])
def tril(x: Array, *, offset: int, out: Array, scratch: list[Array]) -> None:
    number_diagonals(scratch, offset)
    keep(x, np.less, scratch, out)


@kernel(triangle_rule, in_place=[(0, 0)])
def triu(x: Array, *, offset: int, out: Array, scratch: list[Array]) -> None:
    number_diagonals(scratch, offset)
    keep(x, np.greater, scratch, out)


def eye_rule(*, shape: Shape, offset: int, dtype: DTypeName) -> Types:
    require(len(shape) >= 2, f"shape has {len(shape)} extents and needs two or more")
    require(dtype in ITEM_BYTES, f"{dtype!r} is not a dtype")
    y = TensorType(dtype, shape)
    require(min(y.static_shape) >= 0, f"an extent of {y} is negative")
    return types(y)


@kernel(eye_rule)
def eye(*, shape: tuple[int, ...], offset: int, dtype: DTypeName, out: Array) -> None:
    rows, columns = shape[-2:]
    out.fill(0)
    start = offset if offset >= 0 else -offset * columns
    stop = max(0, (columns - offset) * columns)  # end of the diagonal in the last column
    out.reshape(*shape[:-2], rows * columns)[..., start : stop : columns + 1] = 1


def number_diagonals(scratch: list[Array], offset: int) -> None:
    """Fill the first two arrays so that row and column numbers are equal on the diagonal."""
    rows, columns, _ = scratch
    count_up(rows.reshape(-1), 1)
    count_up(columns, 1)
    np.add(rows, max(-rows.size, min(offset, columns.size)), rows)  # a larger offset changes nothing but may overflow


def keep(x: Array, is_zero: np.ufunc, scratch: list[Array], out: Array) -> None:
    """Copy x, with zeros where `is_zero` holds for row and column number."""
    rows, columns, zeros = scratch
    with small_buffers():
        is_zero(rows, columns, zeros)
    np.copyto(out, x)
    np.copyto(out, 0, where=zeros, casting="unsafe")

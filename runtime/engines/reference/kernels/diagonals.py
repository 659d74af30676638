"""Elements on, above and below the diagonals of matrices."""

from __future__ import annotations

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import DTypeName
from runtime.engines.reference.kernels.index import count_up
from runtime.engines.reference.kernels.windows import small_buffers
from runtime.kernel import Array, kernel


def triangle_scratch(x: TensorType) -> list[TensorType]:
    rows, columns = x.static_shape[-2:]
    types = (("int64", (rows, 1)), ("int64", (columns,)), ("bool", (rows, columns)))
    return [TensorType(dtype, shape) for dtype, shape in types]


@kernel(scratch=triangle_scratch, in_place=[(0, 0)])
def tril(x: Array, *, offset: int, out: Array, scratch: list[Array]) -> None:
    number_diagonals(scratch, offset)
    keep(x, np.less, scratch, out)


@kernel(scratch=triangle_scratch, in_place=[(0, 0)])
def triu(x: Array, *, offset: int, out: Array, scratch: list[Array]) -> None:
    number_diagonals(scratch, offset)
    keep(x, np.greater, scratch, out)


@kernel()
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

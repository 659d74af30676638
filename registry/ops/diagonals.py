"""Diagonals and triangles of matrices, which are the last two axes.

`offset` counts diagonals: 0 is the main one, 1 the next above it, -1 the next below.
"""

from __future__ import annotations

from prograd_proto import TensorType
from prograd_proto.dtypes import DTypeName
from prograd_proto.result_types.shapes import normal_axis, size_known
from prograd_proto.tensor_types import Shape
from registry.errors import require
from registry.op import op
from registry.ops.shape import reshape, transpose
from registry.spelled import spelled
from registry.traits import exact, grows
from registry.value import Value


@exact
@op
def tril(x: Value, *, offset: int = 0) -> TensorType:
    """Return the matrices with zeros above a diagonal."""
    ...


@tril.gradient
def tril_gradient(dy: Value, *, offset: int) -> Value:
    return tril(dy, offset=offset)


@exact
@op
def triu(x: Value, *, offset: int = 0) -> TensorType:
    """Return the matrices with zeros below a diagonal."""
    ...


@triu.gradient
def triu_gradient(dy: Value, *, offset: int) -> Value:
    return triu(dy, offset=offset)


@exact
@grows
@op(differentiable=False)
def eye(*, shape: Shape, offset: int = 0, dtype: DTypeName = "float32") -> TensorType:
    """Return matrices of zeros with ones on a diagonal; axes of `shape` before the last two repeat the matrix."""
    ...


@spelled
def diagonal(x: Value, *, offset: int = 0, axis: tuple[int, int] = (-2, -1)) -> Value:
    """Return a diagonal of the matrices with rows along axis[0] and columns along axis[1], as a last axis.

    Its extent is the length of the diagonal within the matrix, which may be 0.
    """
    pair = [normal_axis(each, x.rank) for each in axis]
    require(len(pair) == len(set(pair)) == 2, f"axes {axis} are not two different ones")
    rest = [each for each in range(x.rank) if each not in pair]
    rows, columns = (size_known(x.shape[each], "the extent of a matrix") for each in pair)
    if [*rest, *pair] != list(range(x.rank)):
        x = transpose(x, axis=(*rest, *pair))
    count = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    lines = reshape(x, shape=(*x.shape[:-2], rows * columns))
    start = (offset if offset >= 0 else -offset * columns) if count else 0
    stop = start + (count - 1) * (columns + 1) + 1 if count else 0
    return lines[..., start : stop : columns + 1]

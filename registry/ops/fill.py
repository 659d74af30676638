"""Tensors made from nothing: constants, filled tensors, numbers of elements."""

from __future__ import annotations

from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import ITEM_BYTES, NAMES, DTypeName
from prograd_proto.tensor_types import Shape
from registry.errors import require
from registry.op import op
from registry.value import Value

SMALL_TENSOR_BYTES = 65536
"""The most that one constant may hold; larger arrays are states read from a file."""


@op(differentiable=False)
def constant(*, value: pb.SmallTensor) -> TensorType:
    """The elements written in the program, at most 64 KiB."""
    require(value.dtype in NAMES, f"the constant has no known dtype (number {value.dtype})")
    type = TensorType(NAMES[value.dtype], tuple(value.shape))
    require(all(extent >= 0 for extent in value.shape), "an extent is negative")
    require(
        type.nbytes == len(value.data),
        f"{type} takes {type.nbytes} bytes, the constant has {len(value.data)}",
    )
    require(type.nbytes <= SMALL_TENSOR_BYTES, f"{type} takes {type.nbytes} bytes, a constant has at most 65536")
    return type


@op(differentiable=False)
def full(*, shape: Shape, value: float, dtype: DTypeName = "float32") -> TensorType:
    """`shape` filled with `value`, rounded to `dtype`."""
    require(dtype in ITEM_BYTES, f"{dtype!r} is not a dtype")
    return TensorType(dtype, shape)


@op(differentiable=False)
def size(*, shape: Shape, dtype: DTypeName = "int64") -> TensorType:
    """How many elements `shape` has, as a rank-0 tensor: 1 for rank 0."""
    return TensorType(dtype, ())


def full_like(x: Value, value: float) -> Value:
    """A tensor of x's type filled with `value`; x itself is not read."""
    return full.on(x.block)(shape=x.shape, value=value, dtype=x.dtype)


def count_like(x: Value, axes: tuple[int, ...]) -> Value:
    """How many elements x has along `axes`, as a rank-0 tensor of x's dtype; x itself is not read."""
    return size.on(x.block)(shape=tuple(x.shape[axis] for axis in axes), dtype=x.dtype)

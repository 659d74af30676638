"""Tensors made from nothing."""

from __future__ import annotations

from math import prod

import numpy as np

from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import ITEM_BYTES, NAMES, DTypeName
from prograd_proto.tensor_types import Shape
from runtime.kernel import Array, Types, kernel, require, types

SMALL_TENSOR_BYTES = 65536


def constant_rule(*, value: pb.SmallTensor) -> Types:
    require(value.dtype in NAMES, f"the constant has no known dtype (number {value.dtype})")
    require(all(extent >= 0 for extent in value.shape), "an extent is negative")
    nbytes = prod(value.shape) * ITEM_BYTES[NAMES[value.dtype]]
    require(
        nbytes == len(value.data) <= SMALL_TENSOR_BYTES,
        f"the constant has {len(value.data)} bytes, its type {nbytes}",
    )
    return types(TensorType(NAMES[value.dtype], tuple(value.shape)))


@kernel(constant_rule)
def constant(*, value: pb.SmallTensor, out: Array) -> None:
    out[...] = np.frombuffer(value.data, out.dtype.newbyteorder("<")).reshape(out.shape)


def full_rule(*, shape: Shape, value: float, dtype: DTypeName) -> Types:
    return types(TensorType(dtype, shape))


@kernel(full_rule)
def full(*, shape: Shape, value: float, dtype: DTypeName, out: Array) -> None:
    out.fill(value)


def size_rule(*, shape: Shape, dtype: DTypeName) -> Types:
    return types(TensorType(dtype, ()))


@kernel(size_rule)
def size(*, shape: tuple[int, ...], dtype: DTypeName, out: Array) -> None:
    out.fill(prod(shape))

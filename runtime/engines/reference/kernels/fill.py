"""Tensors made without operands."""

from __future__ import annotations

from math import prod

import numpy as np

from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import DTypeName
from prograd_proto.tensor_types import Shape
from runtime.engines.reference.kernels.copy import fill
from runtime.engines.reference.kernels.index import count_up
from runtime.kernel import Array, kernel
from runtime.row_rules import pointwise


@kernel()
def constant(*, value: pb.SmallTensor, out: Array) -> None:
    out[...] = np.frombuffer(value.data, out.dtype.newbyteorder("<")).reshape(out.shape)


@kernel(rows=pointwise)
def full(*, shape: Shape, value: float, dtype: DTypeName, out: Array) -> None:
    fill(out, value)


@kernel()
def size(*, shape: tuple[int, ...], dtype: DTypeName, out: Array) -> None:
    out.fill(prod(shape))


def counted(out: TensorType) -> list[TensorType]:
    return [TensorType("float64", out.shape)]


@kernel(scratch=counted)
def range_(*, stop: float, start: float, step: float, dtype: DTypeName, out: Array, scratch: list[Array]) -> None:
    put_steps(start, step, scratch[0], out)


@kernel(scratch=counted)
def linspace(*, start: float, stop: float, count: int, dtype: DTypeName, out: Array, scratch: list[Array]) -> None:
    put_steps(start, (stop - start) / max(1, count - 1), scratch[0], out)
    if count > 1:
        out[-1] = stop


def put_steps(start: float, step: float, numbers: Array, out: Array) -> None:
    """Fill a vector with start + i * step, by way of float64."""
    count_up(numbers, 1)
    np.multiply(numbers, step, numbers)
    np.add(numbers, start, numbers)
    np.copyto(out, numbers, casting="unsafe")

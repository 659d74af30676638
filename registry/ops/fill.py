"""Tensors without operands: constants, filled tensors, ranges of numbers, element counts."""

from __future__ import annotations

from prograd_proto import TensorType, dtypes
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import DTypeName
from prograd_proto.tensor_types import Shape
from registry.op import op
from registry.traits import exact, grows
from registry.value import Value


@op(differentiable=False)
def constant(*, value: pb.SmallTensor) -> TensorType:
    """Return the elements written in the program, at most 64 KiB."""
    ...


@exact
@grows
@op(differentiable=False)
def full(*, shape: Shape, value: float, dtype: DTypeName = "float32") -> TensorType:
    """Return a tensor of `shape` filled with `value`, rounded to `dtype`."""
    ...


@exact
@grows
@op(differentiable=False)
def size(*, shape: Shape, dtype: DTypeName = "int64") -> TensorType:
    """Return the number of elements of `shape` as a rank-0 tensor; it is 1 for rank 0."""
    ...


@exact
@grows
@op(differentiable=False)
def range(*, stop: float, start: float = 0.0, step: float = 1.0, dtype: DTypeName = "int64") -> TensorType:
    """Return the numbers start, start + step, start + 2 * step ... before `stop`, computed in float64.

    Integers go up in whole steps only.
    """
    ...


@op(differentiable=False)
def linspace(*, start: float, stop: float, count: int, dtype: DTypeName = "float32") -> TensorType:
    """Return `count` equally spaced numbers from `start` to `stop` inclusive, computed in float64."""
    ...


def full_like(x: Value, value: float) -> Value:
    """Return a tensor of x's type filled with `value`; x itself is not read."""
    return full.on(x.block)(shape=x.shape, value=value, dtype=x.dtype)


def gradient_like(x: Value, value: float) -> Value:
    """Return a tensor of the type of x's gradient filled with `value`; x itself is not read."""
    return full.on(x.block)(shape=x.shape, value=value, dtype=dtypes.wide(x.dtype))


def count_like(x: Value, axes: tuple[int, ...]) -> Value:
    """Return the number of elements of x along `axes`, as a rank-0 tensor of x's dtype; x is not read."""
    return size.on(x.block)(shape=tuple(x.shape[axis] for axis in axes), dtype=x.dtype)

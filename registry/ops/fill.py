"""Tensors without operands: constants, filled tensors, ranges of numbers, element counts."""

from __future__ import annotations

import math

from prograd_proto import TensorType, dtypes
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import ITEM_BYTES, NAMES, DTypeName, holds
from prograd_proto.tensor_types import Shape
from registry.block import scalar_bytes
from registry.errors import require
from registry.op import op
from registry.traits import exact, grows
from registry.value import Value

MOST = 2**40
"""Upper bound on the elements of a tensor, which has at most a tebibyte."""

SMALL_TENSOR_BYTES = 65536
"""Upper bound on the bytes of a constant; larger arrays are states read from a file."""


@op(differentiable=False, halves=True)
def constant(*, value: pb.SmallTensor) -> TensorType:
    """Return the elements written in the program, at most 64 KiB."""
    require(value.dtype in NAMES, f"the constant has no known dtype (number {value.dtype})")
    type = TensorType(NAMES[value.dtype], tuple(value.shape))
    require(all(extent >= 0 for extent in value.shape), "an extent is negative")
    require(
        type.nbytes == len(value.data),
        f"{type} takes {type.nbytes} bytes, the constant has {len(value.data)}",
    )
    require(type.nbytes <= SMALL_TENSOR_BYTES, f"{type} takes {type.nbytes} bytes, a constant has at most 65536")
    return type


@exact
@grows
@op(differentiable=False, halves=True)
def full(*, shape: Shape, value: float, dtype: DTypeName = "float32") -> TensorType:
    """Return a tensor of `shape` filled with `value`, rounded to `dtype`."""
    require(dtype in ITEM_BYTES, f"{dtype!r} is not a dtype")
    require(holds(dtype, value), f"the value {value:g} is no {dtype}")
    return TensorType(dtype, shape)


@exact
@grows
@op(differentiable=False)
def size(*, shape: Shape, dtype: DTypeName = "int64") -> TensorType:
    """Return the number of elements of `shape` as a rank-0 tensor; it is 1 for rank 0."""
    extents = [extent for extent in shape if isinstance(extent, int)]
    require(len(extents) < len(shape) or holds(dtype, math.prod(extents)), f"{math.prod(extents)} does not fit {dtype}")
    return TensorType(dtype, ())


@exact
@grows
@op(differentiable=False)
def range(*, stop: float, start: float = 0.0, step: float = 1.0, dtype: DTypeName = "int64") -> TensorType:
    """Return the numbers start, start + step, start + 2 * step ... before `stop`, computed in float64.

    Integers go up in whole steps only.
    """
    require(dtype != "bool", "numbers are not bool")
    require(all(map(math.isfinite, (start, stop, step))), f"{start:g}, {stop:g} and {step:g} are not all finite")
    require(step != 0, "the step is 0")
    require((stop - start) / step <= MOST, "there are more numbers than a tensor has elements")
    require(dtype in dtypes.FLOATS or step.is_integer(), f"the step {step} is not a whole number, as {dtype} needs")
    count = math.ceil(max(0.0, (stop - start) / step))
    if count:
        scalar_bytes(dtype, start)
        scalar_bytes(dtype, start + step * (count - 1))
    return TensorType(dtype, (count,))


@op(differentiable=False)
def linspace(*, start: float, stop: float, count: int, dtype: DTypeName = "float32") -> TensorType:
    """Return `count` equally spaced numbers from `start` to `stop` inclusive, computed in float64."""
    require(count >= 0, f"the count {count} is negative")
    require(dtype in dtypes.FLOATS, f"needs float32 or float64, not {dtype}")
    return TensorType(dtype, (count,))


def full_like(x: Value, value: float) -> Value:
    """Return a tensor of x's type filled with `value`; x itself is not read."""
    return full.on(x.block)(shape=x.shape, value=value, dtype=x.dtype)


def gradient_like(x: Value, value: float) -> Value:
    """Return a tensor of the type of x's gradient filled with `value`; x itself is not read."""
    return full.on(x.block)(shape=x.shape, value=value, dtype=dtypes.wide(x.dtype))


def count_like(x: Value, axes: tuple[int, ...]) -> Value:
    """Return the number of elements of x along `axes`, as a rank-0 tensor of x's dtype; x is not read."""
    return size.on(x.block)(shape=tuple(x.shape[axis] for axis in axes), dtype=x.dtype)

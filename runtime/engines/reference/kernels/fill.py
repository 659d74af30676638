"""Tensors made without operands."""

from __future__ import annotations

import math
from math import prod

import numpy as np

from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import FLOATS, INTEGERS, ITEM_BYTES, NAMES, DTypeName, holds
from prograd_proto.tensor_types import Shape
from runtime.engines.reference.kernels.copy import fill
from runtime.engines.reference.kernels.index import count_up
from runtime.kernel import Array, Types, kernel, require, types
from runtime.row_rules import pointwise

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


@kernel(constant_rule, halves=True)
def constant(*, value: pb.SmallTensor, out: Array) -> None:
    out[...] = np.frombuffer(value.data, out.dtype.newbyteorder("<")).reshape(out.shape)


def full_rule(*, shape: Shape, value: float, dtype: DTypeName) -> Types:
    require(holds(dtype, value), f"its value {value:g} is no {dtype}")
    return types(TensorType(dtype, shape))


@kernel(full_rule, halves=True, rows=pointwise)
def full(*, shape: Shape, value: float, dtype: DTypeName, out: Array) -> None:
    fill(out, value)


def size_rule(*, shape: Shape, dtype: DTypeName) -> Types:
    extents = [extent for extent in shape if isinstance(extent, int)]
    require(len(extents) < len(shape) or holds(dtype, prod(extents)), f"{prod(extents)} does not fit {dtype}")
    return types(TensorType(dtype, ()))


@kernel(size_rule)
def size(*, shape: tuple[int, ...], dtype: DTypeName, out: Array) -> None:
    out.fill(prod(shape))


def range_rule(*, stop: float, start: float, step: float, dtype: DTypeName) -> Types:
    shown = f"{start}:{stop}:{step}"
    require(all(map(math.isfinite, (start, stop, step))) and step != 0, f"{shown} is no range")
    require(math.isfinite((stop - start) / step), f"{shown} has no end")
    require(dtype in FLOATS | INTEGERS, f"{dtype!r} has no numbers")
    count = math.ceil(max(0.0, (stop - start) / step))
    if count and dtype in INTEGERS:
        ends = start, start + step * (count - 1)
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        require(start.is_integer() and step.is_integer(), f"{shown} has numbers that are not whole")
        require(least <= min(ends) and max(ends) <= most, f"{shown} leaves {dtype}")
    return types(TensorType(dtype, (count,)), scratch=[TensorType("float64", (count,))])


@kernel(range_rule)
def range_(*, stop: float, start: float, step: float, dtype: DTypeName, out: Array, scratch: list[Array]) -> None:
    put_steps(start, step, scratch[0], out)


def linspace_rule(*, start: float, stop: float, count: int, dtype: DTypeName) -> Types:
    require(count >= 0 and dtype in FLOATS, f"{count} numbers of {dtype} cannot be spaced evenly")
    return types(TensorType(dtype, (count,)), scratch=[TensorType("float64", (count,))])


@kernel(linspace_rule)
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

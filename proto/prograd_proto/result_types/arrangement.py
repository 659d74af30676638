"""Tensors without operands, and rearrangements of elements."""

from __future__ import annotations

import math

from prograd_proto import dtypes
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import ITEM_BYTES, NAMES, DTypeName, holds
from prograd_proto.elements import scalar_bytes
from prograd_proto.errors import require
from prograd_proto.result_types.rule import rule, rule_with_halves
from prograd_proto.result_types.shapes import (
    normal_axis,
    require_equal_dtypes,
    require_same_count,
    require_whole,
    size_known,
)
from prograd_proto.tensor_types import Shape, TensorType

MOST = 2**40
"""Upper bound on the elements of a tensor, which has at most a tebibyte."""
SMALL_TENSOR_BYTES = 65536
"""Upper bound on the bytes of a constant; larger arrays are states read from a file."""


@rule_with_halves
def constant(*, value: pb.SmallTensor) -> TensorType:
    require(value.dtype in NAMES, f"the constant has no known dtype (number {value.dtype})")
    type = TensorType(NAMES[value.dtype], tuple(value.shape))
    require(all(extent >= 0 for extent in value.shape), "an extent is negative")
    require(
        type.nbytes == len(value.data),
        f"{type} takes {type.nbytes} bytes, the constant has {len(value.data)}",
    )
    require(type.nbytes <= SMALL_TENSOR_BYTES, f"{type} takes {type.nbytes} bytes, a constant has at most 65536")
    return type


@rule_with_halves
def full(*, shape: Shape, value: float, dtype: DTypeName) -> TensorType:
    require(dtype in ITEM_BYTES, f"{dtype!r} is not a dtype")
    require(holds(dtype, value), f"the value {value:g} is no {dtype}")
    return TensorType(dtype, shape)


@rule
def size_(*, shape: Shape, dtype: DTypeName) -> TensorType:
    extents = [extent for extent in shape if isinstance(extent, int)]
    require(len(extents) < len(shape) or holds(dtype, math.prod(extents)), f"{math.prod(extents)} does not fit {dtype}")
    return TensorType(dtype, ())


@rule
def range_(*, stop: float, start: float, step: float, dtype: DTypeName) -> TensorType:
    require(dtype in dtypes.FLOATS | dtypes.INTEGERS, f"numbers are not {dtype}")
    require(all(map(math.isfinite, (start, stop, step))), f"{start:g}, {stop:g} and {step:g} are not all finite")
    require(step != 0, "the step is 0")
    require((stop - start) / step <= MOST, "there are more numbers than a tensor has elements")
    require(dtype in dtypes.FLOATS or step.is_integer(), f"the step {step} is not a whole number, as {dtype} needs")
    count = math.ceil(max(0.0, (stop - start) / step))
    if count:
        scalar_bytes(dtype, start)
        scalar_bytes(dtype, start + step * (count - 1))
    return TensorType(dtype, (count,))


@rule
def linspace(*, start: float, stop: float, count: int, dtype: DTypeName) -> TensorType:
    require(count >= 0, f"the count {count} is negative")
    require(dtype in dtypes.FLOATS, f"needs float32 or float64, not {dtype}")
    return TensorType(dtype, (count,))


@rule_with_halves
def reshape(x: TensorType, *, shape: Shape) -> TensorType:
    require_same_count(x.shape, shape)
    return TensorType(x.dtype, shape)


@rule_with_halves
def transpose(x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
    require(sorted(axes) == list(range(x.rank)), f"axes {axes} do not name each of the {x.rank} axes once")
    return TensorType(x.dtype, tuple(x.shape[axis] for axis in axes))


@rule_with_halves
def slice_(
    x: TensorType, *, axes: tuple[int, ...], starts: tuple[int, ...], stops: tuple[int, ...], strides: tuple[int, ...]
) -> TensorType:
    return TensorType(x.dtype, _sliced(x.shape, axes, starts, stops, strides))


@rule_with_halves
def unslice(
    x: TensorType,
    *,
    shape: Shape,
    axes: tuple[int, ...],
    starts: tuple[int, ...],
    stops: tuple[int, ...],
    strides: tuple[int, ...],
) -> TensorType:
    whole = _sliced(shape, axes, starts, stops, strides)
    require(x.shape == whole, f"the slice has the shape {list(whole)}, x {list(x.shape)}")
    return TensorType(x.dtype, shape)


@rule_with_halves
def pad(x: TensorType, *, before: tuple[int, ...], after: tuple[int, ...], value: float) -> TensorType:
    require(len(before) == len(after) == x.rank, f"before and after need {x.rank} widths each, one per axis")
    require(min((*before, *after), default=0) >= 0, "a width is negative; use slice to cut")
    require_whole(x, value)
    extents = zip(x.shape, before, after, strict=True)
    return TensorType(
        x.dtype,
        tuple(d if i == j == 0 else i + size_known(d, "a padded extent") + j for d, i, j in extents),
    )


@rule_with_halves
def split(x: TensorType, *, sizes: tuple[int, ...], axis: int) -> list[TensorType]:
    axis = normal_axis(axis, x.rank)
    size = size_known(x.shape[axis], "the extent of a split axis")
    total = 0
    for piece in sizes:
        require(piece >= 0, f"the size {piece} is negative")
        total += piece
    require(len(sizes) > 0, "sizes is empty")
    require(total == size, f"the sizes make {total}, axis {axis} has {size}")
    return [TensorType(x.dtype, (*x.shape[:axis], piece, *x.shape[axis + 1 :])) for piece in sizes]


@rule_with_halves
def concat(*xs: TensorType, axis: int) -> TensorType:
    require_equal_dtypes(*xs)
    first = xs[0]
    axis = normal_axis(axis, first.rank)
    total = 0
    for x in xs:
        others = (*x.shape[:axis], *x.shape[axis + 1 :])
        same = x.rank == first.rank and others == (*first.shape[:axis], *first.shape[axis + 1 :])
        require(same, f"{x} and {first} differ beside axis {axis}")
        total += size_known(x.shape[axis], "the extent of a joined axis")
    return TensorType(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :]))


def _sliced(
    shape: Shape, axes: tuple[int, ...], starts: tuple[int, ...], stops: tuple[int, ...], strides: tuple[int, ...]
) -> Shape:
    counts = (len(axes), len(starts), len(stops), len(strides))
    require(len(set(counts)) == 1, f"axes, starts, stops and strides have {counts} elements; make them equal")
    require(len(set(axes)) == len(axes), f"axes {axes} name an axis twice")
    new = list(shape)
    for axis, start, stop, stride in zip(axes, starts, stops, strides, strict=True):
        require(0 <= axis < len(shape), f"axis {axis} is out of range for rank {len(shape)}")
        size = size_known(shape[axis], "the extent of a sliced axis")
        require(stride != 0, "a stride is 0")
        taken = range(start, stop, stride)
        inside = not taken or (0 <= taken[0] < size and 0 <= taken[-1] < size)
        require(inside, f"axis {axis} has {size} elements; {start}:{stop}:{stride} leaves it")
        new[axis] = len(taken)
    return tuple(new)

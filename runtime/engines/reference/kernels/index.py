"""Elements by indices that are data; an index out of range stops the run before it is used."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import DTypeName
from runtime.errors import OutOfRange
from runtime.kernel import Array, kernel
from runtime.row_rules import Operands, along_other_axes, first_operand, has_rows


def gather_scratch(indices: TensorType) -> list[TensorType]:
    return [] if indices.dtype == "int64" else [TensorType("int64", indices.shape)]


def gather_rows(operands: Operands, result: tuple[int, ...], attributes: Mapping[str, Any]) -> bool:
    """Return True if rows of indices index one table, or if indices within rows are the same for all."""
    x, indices = operands
    if has_rows(indices):
        return not has_rows(x) and attributes["axis"] == 0
    return along_other_axes(operands, result, attributes)


@kernel(scratch=gather_scratch, rows=gather_rows)
def gather(x: Array, indices: Array, *, axis: int, out: Array, scratch: list[Array] | tuple[Array, ...] = ()) -> None:
    check_range(indices, x.shape[axis])
    for wide in scratch:  # NumPy would make this copy itself
        np.copyto(wide, indices)
        indices = wide
    np.take(x, indices, axis, out, "clip")  # with "raise" it would fill a buffer first


def scatter_add_scratch(x: TensorType, updates: TensorType, axis: int) -> list[TensorType]:
    before, after = x.static_shape[: axis % x.rank], x.static_shape[axis % x.rank + 1 :]
    return [TensorType("int64", shape) for shape in (updates.static_shape, (prod(before),), (prod(after),))]


@kernel(scratch=scatter_add_scratch, in_place=[(0, 0)])
def scatter_add(x: Array, indices: Array, updates: Array, *, axis: int, out: Array, scratch: list[Array]) -> None:
    """Add at flat indices, one by one in row-major order: NumPy is far slower at adding slices."""
    check_range(indices, x.shape[axis])
    flat, before, after = scratch
    places = flat.reshape(before.size, indices.size, after.size)
    count_up(before, x.shape[axis] * after.size)
    count_up(after, 1)
    np.copyto(places, indices.reshape(1, -1, 1))
    np.multiply(places, after.size, places)
    np.add(places, before.reshape(-1, 1, 1), places)
    np.add(places, after, places)
    np.copyto(out, x)
    np.add.at(out.reshape(-1), flat.reshape(-1), updates.reshape(-1))


def one_hot_scratch(indices: TensorType) -> list[TensorType]:
    return [TensorType("int64", indices.shape)]


@kernel(scratch=one_hot_scratch, rows=first_operand)
def one_hot(indices: Array, *, depth: int, dtype: DTypeName, out: Array, scratch: list[Array]) -> None:
    places = scratch[0].reshape(-1)
    check_range(indices, depth)
    count_up(places, depth)
    np.add(places, indices.reshape(-1), places)
    out.fill(0)
    out.reshape(-1)[places] = 1


def check_range(indices: Array, size: int, what: str = "index", of: str = "places") -> None:
    """Raise OutOfRange unless every index is in 0 ... size - 1; `what` and `of` are the words of the sentence."""
    if not indices.size:
        return
    low, high = int(indices.min()), int(indices.max())
    if low < 0 or high >= size:
        wrong = low if low < 0 else high
        raise OutOfRange(f"{what} {wrong} is out of range: there are {size} {of}, from 0", wrong)


def count_up(out: Array, step: int) -> None:
    """Fill a vector with 0, step, 2 * step and so on; NumPy has no arange that writes into an array."""
    out.fill(step)
    out[:1] = 0
    np.cumsum(out, out=out)

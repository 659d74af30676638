"""Kernels that rearrange elements."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import EllipsisType
from typing import Any

import numpy as np

from runtime.engines.reference.kernels.copy import fill
from runtime.kernel import Array, kernel
from runtime.row_rules import Operands, along_other_axes, each_operand, has_rows

Ints = tuple[int, ...]


def reshape_rows(operands: Operands, result: tuple[int, ...], attributes: Mapping[str, Any]) -> bool:
    """Return True if axis 0 stays, so that a row keeps its elements."""
    [x] = operands
    return x is not None and x.has_rows and result[:1] == x.shape[:1] and prod(result[1:]) == prod(x.shape[1:])


@kernel(view=True, rows=reshape_rows)
def reshape(x: Array, *, shape: Ints, out: Array) -> None:
    np.copyto(out, x.reshape(shape))


def transpose_rows(operands: Operands, result: tuple[int, ...], attributes: Mapping[str, Any]) -> bool:
    return has_rows(operands[0]) and attributes["axes"][0] == 0


@kernel(rows=transpose_rows)
def transpose(x: Array, *, axes: Ints, out: Array) -> None:
    np.copyto(out, x.transpose(axes))


@kernel(rows=along_other_axes)
def slice_(x: Array, *, axes: Ints, starts: Ints, stops: Ints, strides: Ints, out: Array) -> None:
    np.copyto(out, x[window(x, axes, starts, stops, strides)])


@kernel()
def unslice(x: Array, *, shape: Ints, axes: Ints, starts: Ints, stops: Ints, strides: Ints, out: Array) -> None:
    out.fill(0)
    np.copyto(out[window(out, axes, starts, stops, strides)], x)


def pad_rows(operands: Operands, result: tuple[int, ...], attributes: Mapping[str, Any]) -> bool:
    return has_rows(operands[0]) and attributes["before"][0] == attributes["after"][0] == 0


@kernel(rows=pad_rows)
def pad(x: Array, *, before: Ints, after: Ints, value: float, out: Array) -> None:
    fill(out, value)
    inner = tuple(slice(i, i + extent) for extent, i in zip(x.shape, before, strict=True))
    np.copyto(out[(*inner, ...)], x)  # the ellipsis makes it an array for rank 0 too


@kernel(variadic_outputs=True, rows=along_other_axes)
def split(x: Array, *, sizes: Ints, axis: int, out: list[Array]) -> None:
    start = 0
    turned = x.swapaxes(0, axis)
    for size, piece in zip(sizes, out, strict=True):
        np.copyto(piece.swapaxes(0, axis), turned[start : start + size])
        start += size


def concat_rows(operands: Operands, result: tuple[int, ...], attributes: Mapping[str, Any]) -> bool:
    return attributes["axis"] % len(result) != 0 and each_operand(operands, result, attributes)


@kernel(rows=concat_rows)
def concat(*xs: Array, axis: int, out: Array) -> None:
    np.concatenate(xs, axis, out)


def window(x: Array, axes: Ints, starts: Ints, stops: Ints, strides: Ints) -> tuple[slice | EllipsisType, ...]:
    """Return the index of a slice that lies within x, which gives an array, also of rank 0."""
    index = [slice(None)] * x.ndim
    for axis, start, stop, stride in zip(axes, starts, stops, strides, strict=True):
        empty = not range(start, stop, stride)
        index[axis] = slice(0, 0) if empty else slice(start, None if stop < 0 else stop, stride)
    return *index, ...

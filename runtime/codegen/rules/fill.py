"""Tensors computed from their indices alone."""

from __future__ import annotations

from math import prod
from typing import Any

from prograd_proto.dtypes import INTEGERS
from runtime.codegen.ir import FLOAT64, Value
from runtime.codegen.ir.words import convert, where
from runtime.codegen.kernels.indices import ALL_AXES, Indices
from runtime.codegen.kernels.registers import constant, register_type
from runtime.codegen.rules.rule import ALL_DTYPES, pointwise


def full(*, value: float, dtype: str, indices: Indices, **_: Any) -> Value:
    whole = int(value) if dtype in INTEGERS else value  # drops a fraction, as the reference engine does
    return constant(indices.first.function, dtype, whole)


def size(*, shape: tuple[int, ...], dtype: str, indices: Indices) -> Value:
    return indices.first.function.constant(register_type(dtype), prod(shape))


def range_(*, start: float, step: float, dtype: str, indices: Indices, **_: Any) -> Value:
    return convert(spaced(indices, start, step), register_type(dtype))


def linspace(*, start: float, stop: float, count: int, dtype: str, indices: Indices) -> Value:
    numbers = convert(spaced(indices, start, (stop - start) / max(1, count - 1)), register_type(dtype))
    return where(indices.values().equal(count - 1), stop, numbers) if count > 1 else numbers


def spaced(indices: Indices, start: float, step: float) -> Value:
    return convert(indices.values(), FLOAT64) * step + start


def eye(*, offset: int, dtype: str, row: Indices, column: Indices, **_: Any) -> Value:
    return convert(beyond(row, column, offset).equal(0), register_type(dtype))


def tril(x: Value, *, offset: int, row: Indices, column: Indices) -> Value:
    return where(beyond(row, column, offset) > 0, 0, x)


def triu(x: Value, *, offset: int, row: Indices, column: Indices) -> Value:
    return where(beyond(row, column, offset) < 0, 0, x)


def beyond(row: Indices, column: Indices, offset: int) -> Value:
    """Return the columns by which an element is right of a diagonal; the offset is limited to the matrix."""
    return column.values() - (row.values() + max(-row.extent, min(offset, column.extent)))


pointwise("full", full, ALL_DTYPES, indices={"indices": ALL_AXES})
pointwise("size", size, indices={"indices": ALL_AXES})
pointwise("range", range_, indices={"indices": ALL_AXES})
pointwise("linspace", linspace, indices={"indices": ALL_AXES})
pointwise("eye", eye, indices={"row": -2, "column": -1})
pointwise("tril", tril, indices={"row": -2, "column": -1})
pointwise("triu", triu, indices={"row": -2, "column": -1})

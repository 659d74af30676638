"""Tensors made from nothing but their places."""

from __future__ import annotations

from math import prod
from typing import Any

from prograd_proto.dtypes import INTEGERS
from runtime.codegen.ir import FLOAT64, Value
from runtime.codegen.ir.words import convert, where
from runtime.codegen.kernels.places import ALL_AXES, Places
from runtime.codegen.kernels.registers import constant, register_type
from runtime.codegen.rules.form import EVERY, pointwise


def full(*, value: float, dtype: str, places: Places, **_: Any) -> Value:
    whole = int(value) if dtype in INTEGERS else value  # a fraction is dropped, as the reference engine does
    return constant(places.first.function, dtype, whole)


def size(*, shape: tuple[int, ...], dtype: str, places: Places) -> Value:
    return places.first.function.constant(register_type(dtype), prod(shape))


def range_(*, start: float, step: float, dtype: str, places: Places, **_: Any) -> Value:
    return convert(spaced(places, start, step), register_type(dtype))


def linspace(*, start: float, stop: float, count: int, dtype: str, places: Places) -> Value:
    numbers = convert(spaced(places, start, (stop - start) / max(1, count - 1)), register_type(dtype))
    return where(places.numbers().equal(count - 1), stop, numbers) if count > 1 else numbers


def spaced(places: Places, start: float, step: float) -> Value:
    return convert(places.numbers(), FLOAT64) * step + start


def eye(*, offset: int, dtype: str, row: Places, column: Places, **_: Any) -> Value:
    return convert(beyond(row, column, offset).equal(0), register_type(dtype))


def tril(x: Value, *, offset: int, row: Places, column: Places) -> Value:
    return where(beyond(row, column, offset) > 0, 0, x)


def triu(x: Value, *, offset: int, row: Places, column: Places) -> Value:
    return where(beyond(row, column, offset) < 0, 0, x)


def beyond(row: Places, column: Places, offset: int) -> Value:
    """How far an element is to the right of a diagonal; one that is out of the matrix is as good as any other."""
    return column.numbers() - (row.numbers() + max(-row.extent, min(offset, column.extent)))


pointwise("full", full, EVERY, places={"places": ALL_AXES})
pointwise("size", size, places={"places": ALL_AXES})
pointwise("range", range_, places={"places": ALL_AXES})
pointwise("linspace", linspace, places={"places": ALL_AXES})
pointwise("eye", eye, places={"row": -2, "column": -1})
pointwise("tril", tril, places={"row": -2, "column": -1})
pointwise("triu", triu, places={"row": -2, "column": -1})

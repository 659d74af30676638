"""The indices of the elements of a vector in a result: along an axis, or along all axes in row-major order."""

from __future__ import annotations

from typing import Final, NamedTuple

from prograd_proto.dtypes import DTypeName
from runtime.codegen.ir import DTYPES, Type, Value
from runtime.codegen.ir.words import convert

ALL_AXES: Final = 0
"""Stands for all axes, as one, instead of an axis."""

INT32_EXTENT: Final = 2**31
"""Extent from which indices are int64; int32 holds the indices of shorter axes, and one more number."""


def index_dtype(extent: int) -> DTypeName:
    """Return the dtype of the indices of an axis with `extent` elements."""
    return "int32" if extent < INT32_EXTENT else "int64"


class Indices(NamedTuple):
    """The indices of the elements that are computed at a time.

    Attributes:
        first: index of the first element, a scalar.
        step: difference of successive indices: 1, or 0 if they are the same in that axis.
        lanes: number of elements; 0 for a scalar.
        extent: number of indices of the axis.
    """

    first: Value
    step: int
    lanes: int
    extent: int

    def values(self) -> Value:
        """Return all indices, as integers that are as short as the extent allows."""
        type = self.type.of(self.lanes)
        first = convert(self.first, self.type)
        first = first.function.splat(first, self.lanes) if self.lanes else first
        return first + first.function.counting(type) if self.lanes and self.step else first

    @property
    def type(self) -> Type:
        """The type of the indices."""
        return DTYPES[index_dtype(self.extent)]

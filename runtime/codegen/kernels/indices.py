"""Where the elements of a vector are in a result: along an axis, or counted along all of them in row-major order."""

from __future__ import annotations

from typing import Final, NamedTuple

from prograd_proto.dtypes import DTypeName
from runtime.codegen.ir import DTYPES, Type, Value
from runtime.codegen.ir.words import convert

ALL_AXES: Final = 0
"""Instead of an axis: all of them as one."""

INT32_EXTENT: Final = 2**31
"""Extent from which indices are int64; int32 holds the indices of shorter axes, and one more number."""


def index_dtype(extent: int) -> DTypeName:
    """Return the dtype of the indices of an axis with `extent` elements."""
    return "int32" if extent < INT32_EXTENT else "int64"


class Indices(NamedTuple):
    """The indices of the elements that are computed at a time.

    Attributes:
        first: of the first one, alone.
        step: from one to the next: 1, or 0 if they are the same in that axis.
        lanes: how many; 0 for one alone.
        extent: how many there are in all.
    """

    first: Value
    step: int
    lanes: int
    extent: int

    def values(self) -> Value:
        """All of them, as whole numbers that are as short as the extent allows."""
        type = self.type.of(self.lanes)
        first = convert(self.first, self.type)
        first = first.function.splat(first, self.lanes) if self.lanes else first
        return first + first.function.counting(type) if self.lanes and self.step else first

    @property
    def type(self) -> Type:
        """Of the numbers."""
        return DTYPES[index_dtype(self.extent)]

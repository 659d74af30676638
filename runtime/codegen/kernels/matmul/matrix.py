"""An operand of a product: where it is, its two strides in elements, and what is done with what is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from runtime.codegen.ir import Index, Value


def as_it_is(x: Value) -> Value:
    """What is read, unchanged."""
    return x


@dataclass(frozen=True)
class Matrix:
    """Element (i, j) lies at `at + i * row + j * column`; transposed, the strides change places.

    `prologue` is applied to what is read, alone or in vectors: a cast, a scale.
    """

    at: Value
    row: int
    column: int = 1
    prologue: Callable[[Value], Value] = as_it_is

    def moved(self, i: Index, j: Index) -> Matrix:
        """The matrix that begins at row i and column j of this one."""
        return replace(self, at=self.at + i * self.row + j * self.column)

    def element(self, i: Index, j: Index) -> Value:
        """One element."""
        return self.prologue(self.at.function.load(self.at, i * self.row + j * self.column))

    def along_row(self, i: Index, j: Index, lanes: int, tail: int | None = None) -> Value:
        """A vector of elements of a row, which has to be contiguous; of the first lanes only, where there is a tail."""
        assert self.column == 1, f"columns are {self.column} apart"
        return self.prologue(self.at.function.load(self.at, i * self.row + j, lanes, tail))

    def along_column(self, i: Index, j: Index, lanes: int, tail: int | None = None) -> Value:
        """A vector of elements of a column, likewise."""
        return replace(self, row=self.column, column=self.row).along_row(j, i, lanes, tail)

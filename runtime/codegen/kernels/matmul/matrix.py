"""Operands of a product: a matrix in memory, or one whose elements are computed where they are packed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from runtime.codegen.ir import Index, Value
from runtime.codegen.kernels.steps import ComputedOperand


@dataclass(frozen=True)
class Matrix:
    """A matrix in memory: element (i, j) is at `at + i * row + j * column`. The transpose has the strides swapped."""

    at: Value
    row: int
    column: int = 1

    def moved(self, i: Index, j: Index) -> Matrix:
        """Return the submatrix that begins at row i and column j."""
        return replace(self, at=self.at + i * self.row + j * self.column)

    def element(self, i: Index, j: Index) -> Value:
        """Read one element."""
        return self.at.function.load(self.at, i * self.row + j * self.column)

    def along_row(self, i: Index, j: Index, lanes: int, tail: int | None = None) -> Value:
        """Read a vector of a row, which has to be contiguous; only the first `tail` lanes if that is given."""
        assert self.column == 1, f"columns are {self.column} apart"
        return self.at.function.load(self.at, i * self.row + j, lanes, tail)

    def along_column(self, i: Index, j: Index, lanes: int, tail: int | None = None) -> Value:
        """Read a vector of a column, likewise."""
        return replace(self, row=self.column, column=self.row).along_row(j, i, lanes, tail)


@dataclass(frozen=True)
class ComputedMatrix:
    """A matrix in the producer slot: its elements are computed when a block of it is packed.

    Attributes:
        operand: computes vectors along the rows of a tensor.
        row, column: the strides that the matrix would have if the tensor were in memory.
        is_transposed: whether the rows of the tensor are the columns of the matrix.
        i, j: the row and the column of the matrix at which it begins.
    """

    operand: ComputedOperand
    row: int
    column: int
    is_transposed: bool
    i: Index = 0
    j: Index = 0

    def moved(self, i: Index, j: Index) -> ComputedMatrix:
        """Return the submatrix that begins at row i and column j."""
        return replace(self, i=self.i + i, j=self.j + j)

    def element(self, i: Index, j: Index) -> Value:
        """Compute one element."""
        return self._computed(i, j, 0, 1)

    def along_row(self, i: Index, j: Index, lanes: int, tail: int | None = None) -> Value:
        """Compute a vector of a row, which has to be one of the tensor; at least its first `tail` lanes."""
        assert not self.is_transposed, "rows of the matrix are columns of the tensor"
        return self._computed(i, j, lanes, lanes if tail is None else tail)

    def along_column(self, i: Index, j: Index, lanes: int, tail: int | None = None) -> Value:
        """Compute a vector of a column, likewise."""
        assert self.is_transposed, "columns of the matrix are columns of the tensor"
        return self._computed(i, j, lanes, lanes if tail is None else tail)

    def _computed(self, i: Index, j: Index, lanes: int, count: int) -> Value:
        i, j = self.i + i, self.j + j
        row, column = (j, i) if self.is_transposed else (i, j)
        return self.operand.read(self.operand.first + row, column, lanes, count)


Operand = Matrix | ComputedMatrix
"""An operand of a product."""

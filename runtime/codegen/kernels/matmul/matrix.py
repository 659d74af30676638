"""Operands of a product: a matrix in memory, or one whose elements are computed where they are packed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from runtime.codegen.ir import UINT32, Index, Value
from runtime.codegen.ir.types import WIDENED_BFLOAT16
from runtime.codegen.ir.words import bits, minimum, shuffle, where
from runtime.codegen.kernels.pair_chains import CHAINED_ELEMENTS, elements_of_word
from runtime.codegen.kernels.pair_products import GROUP_PAIRS, UINT16, WORD, paired
from runtime.codegen.kernels.steps import ComputedOperand


@dataclass(frozen=True)
class Matrix:
    """A matrix in memory: element (i, j) is at `at + i * row + j * column`. The transpose has the strides swapped."""

    at: Value
    row: int
    column: int = 1

    @property
    def widened(self) -> Matrix:
        """The same elements of bfloat16 as float32."""
        return replace(self, at=self.at.function.cast(self.at, WIDENED_BFLOAT16))

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

    @property
    def widened(self) -> ComputedMatrix:
        """The same elements of bfloat16 as float32."""
        return replace(self, operand=self.operand.widened())

    def moved(self, i: Index, j: Index) -> ComputedMatrix:
        """Return the submatrix that begins at row i and column j."""
        return replace(self, i=self.i + i, j=self.j + j)

    def prepared(self, rows: int) -> ComputedMatrix:
        """Return a matrix of the first rows, which are rows of the tensor and are now prepared to be computed."""
        assert not self.is_transposed, "rows of the matrix are columns of the tensor"
        return replace(self, operand=self.operand.prepared(self.i, rows))

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


@dataclass(frozen=True)
class PairedMatrix:
    """A matrix of pairs: each is a word with two neighbours along the depth of a matrix of bfloat16.

    An element without a neighbour is paired with 0.

    Attributes:
        source: the matrix of bfloat16.
        is_left: True if its rows are along the depth, False if its columns are.
        depth: number of its elements along the depth.
        p: the pair at which it begins.
        is_widened: True if copies have its elements as float32: a pair is two neighbours along the depth.
        is_chained: True if words of copies hold neighbours of a chain of `kernels.pair_chains`.
        is_combined: True if its elements are these words. It then has whole groups, and vectors along the depth have
            one each.
    """

    source: Matrix | ComputedMatrix
    is_left: bool
    depth: int
    p: Index = 0
    is_widened: bool = False
    is_chained: bool = False
    is_combined: bool = False

    @property
    def row(self) -> int:
        """Stride from row to row; only 1 has a meaning."""
        return self.source.row

    @property
    def column(self) -> int:
        """Stride from column to column, likewise."""
        return self.source.column

    @property
    def has_vectors(self) -> bool:
        """True if all pairs along the depth are whole, so that vectors of them can be read."""
        return self.depth % 2 == 0

    def elements(self, pairs: Index) -> Index:
        """Return the number of elements of the first `pairs` pairs: one less if the last one has no neighbour."""
        if self.has_vectors:
            return pairs * 2
        rest = self.p * -2 + self.depth
        if isinstance(rest, Value):
            return minimum(rest, pairs * 2)
        return min(pairs * 2, rest) if isinstance(pairs, int) else minimum(pairs * 2, rest)

    def moved(self, i: Index, j: Index) -> PairedMatrix:
        """Return the submatrix that begins at row i and column j."""
        p = j if self.is_left else i
        source = self.source.moved(i, j * 2) if self.is_left else self.source.moved(i * 2, j)
        return replace(self, source=source, p=self.p + p)

    def element(self, i: Index, j: Index) -> Value:
        """Return one pair."""
        if self.is_left:
            return self._across(j, lambda p: self.source.element(i, p))
        return self._across(i, lambda p: self.source.element(p, j))

    def along_row(self, i: Index, j: Index, lanes: int, tail: int | None = None) -> Value:
        """Return a vector of pairs of a row; at least its first `tail` lanes."""
        if not lanes:
            return self.element(i, j)
        if self.is_left:
            return self._along_depth(lanes, lambda p: self.source.along_row(i, j * 2 + p, lanes), i, j * 2)
        return self._across(i, lambda p: self.source.along_row(p, j, lanes, tail))

    def along_column(self, i: Index, j: Index, lanes: int, tail: int | None = None) -> Value:
        """Return a vector of pairs of a column, likewise."""
        if not lanes:
            return self.element(i, j)
        if self.is_left:
            return self._across(j, lambda p: self.source.along_column(i, p, lanes, tail))
        return self._along_depth(lanes, lambda p: self.source.along_column(i * 2 + p, j, lanes), i * 2, j)

    def _across(self, p: Index, read: Callable[[Index], Value]) -> Value:
        """Return pairs from two vectors, or elements, that are neighbours along the depth, or of a chain."""
        if self.is_combined:
            second, first = elements_of_word(p)
            return paired(read(first), read(second))
        first = read(p * 2)
        f = first.function
        if self.has_vectors:
            return paired(first, read(p * 2 + 1))
        is_whole = (f.index(self.p + p) * 2 + 1) < self.depth
        second = read(where(is_whole, f.index(p) * 2 + 1, f.index(p) * 2))
        return paired(first, second, where(is_whole, f.constant(UINT32, 0xFFFF0000), f.constant(UINT32, 0)))

    def _along_depth(self, lanes: int, read: Callable[[int], Value], i: Index, j: Index) -> Value:
        """Return a vector of pairs that are contiguous along the depth."""
        assert self.has_vectors, "the last pair of an odd depth is read alone"
        assert not self.is_combined or lanes == GROUP_PAIRS, "a vector is a group"
        order = CHAINED_ELEMENTS if self.is_combined else range(2 * lanes)
        if isinstance(self.source, Matrix):
            at = self.source.moved(i, j).at
            words = at.function.load(at.function.cast(at, WORD), 0, lanes)
            elements = bits(words, UINT16)
            return bits(shuffle(elements, elements, order), WORD) if self.is_combined else words
        x, y = read(0), read(lanes)
        return bits(shuffle(x, y, order), WORD)


def words(source: Matrix) -> Matrix:
    """Return the left operand in memory as a matrix of pairs; its rows are contiguous and of even length."""
    return Matrix(source.at.function.cast(source.at, WORD), source.row // 2)


Operand = Matrix | ComputedMatrix | PairedMatrix
"""An operand of a product."""

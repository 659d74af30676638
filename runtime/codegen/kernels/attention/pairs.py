"""Products of attention of bfloat16: operands are words with pairs of neighbours along the depth.

Scores and gradients of weights have pairs of elements of a query, key or value. Products with weights have pairs of
keys, or pairs of queries of a block; the last one of an odd number is paired with 0. Weights and gradients of scores
are float32 in the softmax, and rounded as factors: as pairs of queries for the gradients of keys and values, and as
pairs of keys for those of queries.
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.codegen.ir import UINT32, Function, Index, Value
from runtime.codegen.ir.halves import narrowed
from runtime.codegen.ir.types import BFLOAT16
from runtime.codegen.ir.words import minimum, where
from runtime.codegen.kernels.attention.heads import Heads
from runtime.codegen.kernels.attention.products import Products
from runtime.codegen.kernels.matmul import Matrix, Operand, PairedMatrix, packed_right, words
from runtime.codegen.kernels.matmul.packing import packed_left
from runtime.codegen.kernels.matmul.plan import tile_shape
from runtime.codegen.kernels.pair_products import paired


def products_of(heads: Heads) -> Products:
    """Return the products of heads of this type."""
    return PairProducts(heads) if heads.of_pairs else Products(heads)


class PairProducts(Products):
    """The products of heads of bfloat16; sums, sizes and copies are those of words of float32."""

    elements_of_step = 2

    def batch_steps(self, f: Function, number: Index) -> Index:
        """Return the pairs of the queries of a batch of blocks; the last query of a block may have no neighbour."""
        heads, half = self.heads, self.block_steps
        blocks: Index = heads.blocks
        if heads.blocks > heads.together:
            blocks = minimum(heads.blocks - f.index(number), heads.together)
        is_last = f.index(number) + blocks >= heads.blocks
        return f.index(blocks) * half - where(is_last, f.index(half - self.steps(heads.last)), 0)

    # Operands.

    def _along_columns(self, source: Matrix, depth: int) -> Operand:
        return PairedMatrix(source, is_left=False, depth=depth)

    def left_size(self, count: int, size: int, *, has_gaps: bool) -> int:
        """Return the words of the copy of rows; contiguous rows of whole pairs are not copied."""
        return count * self.steps(size) if size % 2 or has_gaps else 0

    def left(self, f: Function, source: Matrix, count: int, size: int, copy: Value | None) -> Matrix:
        """Return rows as words, with pairs of elements."""
        if copy is None:
            return words(source)
        depth = self.steps(size)
        if size % 2 == 0 and source.row % 2 == 0:
            return self._copied(f, words(source), count, depth, copy)
        paired = PairedMatrix(source, is_left=True, depth=size)
        return packed_left(f, paired, copy, count, depth, (depth, 0), self.vector)

    def _width(self, size: int) -> int:
        """Return the columns of panels of rows of `size` elements."""
        return self._shape(0, size)[1] * self.heads.lanes

    def right_size(self, steps: int, size: int, *, has_gaps: bool) -> int:
        """Return the words of panels of pairs of rows, which are always copies."""
        return -(-size // self._width(size)) * self._width(size) * steps

    def write_right(self, f: Function, source: Matrix, count: int, size: int, copy: Value | None) -> None:
        """Pack all rows of a head in panels."""
        self._write_panels(f, source, count, size, copy, self.steps(count))

    def _write_panels(
        self, f: Function, source: Matrix, count: int, size: int, copy: Value | None, room: int, pair: Index = 0
    ) -> None:
        """Pack `count` rows from a numbered pair on; each panel has room for `room` pairs."""
        assert copy is not None, "panels are copies"
        rows, width = self._along_columns(source, count), self._width(size)
        packed_right(f, rows, copy + pair * width, self.steps(count), size, width, room, self.vector)

    def right(self, source: Matrix, size: int, copy: Value | None) -> Matrix:
        """Return the first of the panels."""
        assert copy is not None, "panels are copies"
        return Matrix(copy, self._width(size))

    def block_left_size(self, size: int, *, has_gaps: bool) -> int:
        """Return the words of the left operand, which differ from those of the right one."""
        return self.left_size(self.heads.rows, size, has_gaps=has_gaps)

    def block_operand(
        self, f: Function, source: Matrix, count: int, size: int, step: Value, right: Value | None, left: Value | None
    ) -> Matrix:
        """Pack rows of a block in panels that have room for a batch, and return them as words."""
        self._write_panels(f, source, count, size, right, self.heads.together * self.block_steps, step)
        return self.left(f, source, count, size, left)

    def elements(self, source: Matrix) -> Matrix:
        """Return rows whose elements are widened as they are read."""
        return source.widened

    # Factors of the gradients.

    @property
    def block_scores_size(self) -> int:
        """Size of the weights of a block, or of their gradients, which are float32."""
        return self.heads.rows * self.heads.row

    def store_factors(
        self,
        f: Function,
        weights: Sequence[Value],
        scores: Sequence[Value],
        to: Sequence[Value],
        gradients: Sequence[Value],
        j: Index,
    ) -> None:
        """Store pairs of queries, and the gradients of scores, rounded, as pairs of keys."""
        rounded = [[narrowed(x, BFLOAT16) for x in found] for found in (weights, scores)]
        for score, at in zip(rounded[1], gradients, strict=True):
            f.store(score, f.cast(at, BFLOAT16), j)
        for found, at in zip(rounded, to, strict=True):
            f.store(_paired(found), at, j)

    # Products.

    def _steps_of(self, size: Value) -> Value:
        return (size + 1) // 2

    def _shape(self, m: int, n: int) -> tuple[int, int]:
        """Return the rows and vectors of a tile, which depend on those of a block: panels are as wide."""
        return tile_shape(self.heads.target, self.heads.lanes, self.heads.rows, n, of_pairs=True)

    def _block_of_columns(self, f: Function, right: Matrix, j: Index, most: int) -> Matrix:
        return Matrix(right.at + f.index(j) * most, right.row)


def _paired(elements: Sequence[Value]) -> Value:
    """Return words with two elements of bfloat16; the second one is 0 if there is one element."""
    nothing = elements[0].function.constant(UINT32, 0) if len(elements) == 1 else None
    return paired(elements[0], elements[-1], nothing)

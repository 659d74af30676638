"""Products of attention of bfloat16: operands are words with pairs of neighbours along the depth.

Scores and gradients of weights have pairs of elements of a query, key or value. Products with weights have pairs of
keys, or pairs of queries of a block; the last one of an odd number is paired with 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.codegen.ir import Index, Value
from runtime.codegen.ir.types import WIDENED_BFLOAT16
from runtime.codegen.ir.words import convert, first, minimum, where
from runtime.codegen.kernels.attention.heads import Heads
from runtime.codegen.kernels.attention.products import Epilogue, computed, in_panel
from runtime.codegen.kernels.attention.rows import copy_rows
from runtime.codegen.kernels.attention.seen import are_finite
from runtime.codegen.kernels.matmul import Matrix, PairedMatrix, in_tiles, words
from runtime.codegen.kernels.matmul.packing import packed_left, packed_right
from runtime.codegen.kernels.matmul.plan import MAX_CHAIN_DEPTH, tile_shape
from runtime.codegen.kernels.matmul.tile import Sums, tile
from runtime.codegen.kernels.split import in_blocks
from runtime.codegen.kernels.steps import KernelContext


def pairs_of(size: int) -> int:
    """Return the number of pairs of `size` elements."""
    return -(-size // 2)


def width_of(heads: Heads, size: int) -> int:
    """Return the columns of panels of rows of `size` elements."""
    return _row_tile(heads, size)[1] * heads.lanes


def _row_tile(heads: Heads, size: int) -> tuple[int, int]:
    return tile_shape(heads.target, heads.lanes, heads.rows, size, of_pairs=True)


def panels_of_rows(heads: Heads, pairs: int, size: int) -> int:
    """Return the words of the panels of some pairs of rows of `size` elements."""
    width = width_of(heads, size)
    return -(-size // width) * width * pairs


def panels_of_keys(heads: Heads, size: int) -> int:
    """Return the words of the panels of keys or values with `size` elements each."""
    return -(-heads.keys // heads.panel) * heads.panel * pairs_of(size)


def packed_size(count: int, size: int, has_gaps: bool) -> int:
    """Return the words of copies of `count` rows of `size` elements; contiguous rows of whole pairs are not copied."""
    return count * pairs_of(size) if size % 2 or has_gaps else 16


def store_as(x: Value, to: Value, tail: int) -> None:
    """Store the first `tail` lanes of a vector, rounded if the elements at the address are bfloat16."""
    assert to.type.element is not None, "the address is a pointer"
    to.function.store(convert(x, to.type.element), to, 0, tail)


class PairProducts:
    """The products of a head, whose operands are packed as words.

    Attributes:
        half: pairs of queries of a block.
    """

    def __init__(self, context: KernelContext, heads: Heads) -> None:
        self.context, self.heads, self.f = context, heads, context.f
        self.vector, self.half = heads.element.of(heads.lanes), pairs_of(heads.rows)

    # Copies.

    def key_panels(self, source: Matrix, size: int, to: Value) -> None:
        """Pack the keys or values of a head as columns, with pairs of their `size` elements."""
        heads, depth = self.heads, pairs_of(size)
        transposed = Matrix(source.at, source.column, source.row)
        right = PairedMatrix(transposed, is_left=False, depth=size)
        packed_right(self.f, right, to, depth, heads.keys, heads.panel, depth, self.vector)

    def row_panels(self, source: Matrix, count: int, size: int, to: Value, room: int, pair: Index = 0) -> None:
        """Pack `count` rows of `size` elements, with pairs of rows, from a numbered pair on.

        Each panel has room for `room` pairs.
        """
        right, width = PairedMatrix(source, is_left=False, depth=count), width_of(self.heads, size)
        packed_right(self.f, right, to + pair * width, pairs_of(count), size, width, room, self.vector)

    def left_rows(self, source: Matrix, count: int, size: int, to: Value) -> Matrix:
        """Return `count` rows of `size` elements as words, with pairs of elements: as they are, or packed.

        Tiles read rows many times, and rows with gaps fall into few cache sets and many pages.
        """
        if size % 2 == 0 and source.row == size:
            return words(source)
        depth = pairs_of(size)
        if size % 2 == 0 and source.row % 2 == 0:
            copy = Matrix(to, depth)
            copy_rows(self.f, words(source), copy, count, depth)
            return copy
        paired = PairedMatrix(source, is_left=True, depth=size)
        return packed_left(self.f, paired, to, count, depth, (depth, 0), self.vector)

    # Products.

    def by_keys(
        self,
        rows: int,
        left: Matrix,
        panels: Value,
        size: int,
        seen: Index,
        to: Value,
        *,
        scale: float = 1.0,
        beyond: float = 0.0,
    ) -> None:
        """Write the products of rows of words with panels of keys or values; lanes after the last key are `beyond`."""
        f, heads, depth = self.f, self.heads, pairs_of(size)
        whole = heads.keys // heads.panel * heads.panel

        def columns(j: Index, count: int) -> None:
            right = Matrix(panels + j * depth, heads.panel)
            for i, height in in_tiles(f, rows, heads.score_tile[0]):
                sums = self._tile(left.moved(i, 0), right, height, -(-count // heads.lanes) * heads.lanes, depth, depth)
                self._store(sums, to + ((f.index(i) * heads.row) + j), count, scale, beyond)

        for j in f.range(0, whole if isinstance(seen, int) else minimum(seen, whole), heads.panel):
            columns(j, heads.panel)
        if whole == heads.keys:
            return
        if isinstance(seen, int):
            columns(whole, heads.keys - whole)
            return
        with f.when(seen > whole):
            columns(whole, heads.keys - whole)

    def _store(self, sums: Sums, to: Value, count: int, scale: float, beyond: float) -> None:
        """Store the scores of a tile with `count` keys, up to the end of a nominal vector."""
        f, heads, lanes = self.f, self.heads, self.heads.lanes
        nothing = f.constant(self.vector, beyond)
        for r, row in enumerate(sums):
            for c in range(0, -(-count // heads.sum_lanes) * heads.sum_lanes, lanes):
                x = row[c // lanes] * scale if c < count else nothing
                tail = count - c
                x = x if tail >= lanes or tail <= 0 else where(first(x, tail), x, beyond)
                f.store(x, to, r * heads.row + c)

    def over_keys(self, rows: int, left: Matrix, panels: Value, size: int, seen: Index, epilogue: Epilogue) -> None:
        """Compute the products of weights, or of gradients of scores, with a row of `size` elements for each key."""
        keys = computed(self.heads, seen, self.heads.keys)
        depth = pairs_of(keys) if isinstance(keys, int) else (keys + 1) // 2
        most = pairs_of(self.heads.keys)
        self._product(rows, size, left, panels, most, depth, epilogue)

    def of_keys(self, left: Value, panels: Value, size: int, start: Index, stop: Index, key: Index, to: Matrix) -> None:
        """Add to the rows of a panel of keys the products of weights and rows of queries, from pair `start` to `stop`.

        `to` begins at the row of the first key.
        """
        f, heads = self.f, self.heads
        most = heads.together * self.half

        def add(count: int) -> None:
            def epilogue(x: Value, i: Index, j: Index, tail: int) -> None:
                at = to.moved(key + i, j).at
                f.store(f.load(at, 0, heads.lanes, tail) + x, at, 0, tail)

            weights = Matrix(left + (start * heads.row + key), 1, heads.row)
            moved = panels + start * width_of(heads, size)
            self._product(count, size, weights, moved, most, stop - start, epilogue)

        in_panel(f, heads, key, add)

    def _product(
        self, m: int, n: int, left: Matrix, panels: Value, most: int, depth: Index, epilogue: Epilogue
    ) -> None:
        """Compute a product of m rows and n columns in panels, with a depth of at most `most` pairs."""
        f, lanes = self.f, self.heads.lanes
        height, width = _row_tile(self.heads, n)[0], width_of(self.heads, n)
        for j, columns in in_blocks(f, n, width):
            right = Matrix(panels + f.index(j) * most, width)
            for i, size in in_tiles(f, m, height):
                sums = self._tile(left.moved(i, 0), right, size, columns, depth, most)
                for r, line in enumerate(sums):
                    for c, x in enumerate(line):
                        epilogue(x, i + r, j + c * lanes, min(lanes, columns - c * lanes))

    def _tile(self, left: Matrix, right: Matrix, rows: int, columns: int, depth: Index, most: int) -> Sums:
        """Return the sums of a tile; blocks of the depth are added in order."""
        f, vector, lanes = self.f, self.vector, self.heads.lanes
        if most <= MAX_CHAIN_DEPTH:
            is_known = isinstance(depth, int)
            return tile(f, left, right, rows, columns, vector, depth, has_whole_block=is_known, of_pairs=True)
        across = -(-columns // lanes)
        loop = f.loop(0, depth, MAX_CHAIN_DEPTH, [f.constant(vector, 0)] * (rows * across))
        for p, totals in loop:
            part = minimum(f.index(depth) - p, MAX_CHAIN_DEPTH)
            a, b = left.moved(0, p), right.moved(p, 0)
            sums = tile(f, a, b, rows, columns, vector, part, has_whole_block=False, of_pairs=True)
            loop.carry([x + y for x, y in zip(totals, (x for row in sums for x in row), strict=True)])
        return [loop.results[r * across : (r + 1) * across] for r in range(rows)]

    def are_finite(self, parts: Sequence[tuple[Matrix, int, int]]) -> Value:
        """Return True, as a scalar, if all elements of some parts are finite; a part is a matrix with its sizes."""
        read = [(Matrix(self.f.cast(x.at, WIDENED_BFLOAT16), x.row), rows, columns) for x, rows, columns in parts]
        return are_finite(self.f, self.heads, read)

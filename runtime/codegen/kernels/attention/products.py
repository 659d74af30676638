"""The products of a block with the keys that it sees, as columns, as the depth, or as rows.

`Products` has those of float32 and float64, `pairs.PairProducts` those of bfloat16. A depth of more than
`MAX_CHAIN_DEPTH` is split, and the partial sums are added in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from runtime.codegen.ir import Function, Index, Value
from runtime.codegen.ir.words import convert, first, minimum, where
from runtime.codegen.kernels.attention.heads import Heads
from runtime.codegen.kernels.attention.rows import copy_rows
from runtime.codegen.kernels.depth import PairForm
from runtime.codegen.kernels.matmul import Matrix, Operand, in_tiles, packed_right
from runtime.codegen.kernels.matmul.plan import MAX_CHAIN_DEPTH, tile_shape
from runtime.codegen.kernels.matmul.tile import Sums, tile
from runtime.codegen.kernels.split import in_blocks
from runtime.codegen.kernels.tiles import lines

Epilogue = Callable[[Value, Index, Index, int], None]
"""Takes a finished vector, its row, its first column, and the number of lanes that count."""


class Products:
    """The products of a head, and the copies of their operands in scratch of the thread.

    A method whose name ends in `_size` returns the size of a copy, in elements of the sums. If it is 0, the operand is
    read where it is, and the address of the copy is None.

    Attributes:
        elements_of_step: elements of each operand that a step of the depth multiplies.
        heads: the sizes.
        vector: type of a vector of sums.
    """

    elements_of_step: int = 1

    def __init__(self, heads: Heads) -> None:
        self.heads, self.vector = heads, heads.element.of(heads.lanes)

    def steps(self, size: int) -> int:
        """Return the number of steps of a depth of `size` elements."""
        return -(-size // self.elements_of_step)

    @property
    def block_steps(self) -> int:
        """Steps of the depth that the queries of a block take."""
        return self.steps(self.heads.rows)

    def batch_steps(self, f: Function, number: Index) -> Index:
        """Return the steps of the depth that the queries of a batch of blocks take, from a numbered block on."""
        heads = self.heads
        if heads.blocks <= heads.together:
            return heads.queries
        return minimum(heads.queries - f.index(number * heads.rows), heads.together * heads.rows)

    # Operands.

    def columns_size(self, size: int) -> int:
        """Return the size of panels of keys, or of values, of `size` elements."""
        return -(-self.heads.keys // self.heads.panel) * self.heads.panel * self.steps(size)

    def write_columns(self, f: Function, source: Matrix, size: int, to: Value, keys: int | None = None) -> None:
        """Transpose keys or values of a head into panels as wide as a tile: all, or the first `keys`."""
        count, depth = self.heads.keys if keys is None else keys, self.steps(size)
        columns = self._along_columns(Matrix(source.at, source.column, source.row), size)
        packed_right(f, columns, to, depth, count, self.heads.panel, depth, self.vector)

    def _along_columns(self, source: Matrix, depth: int) -> Operand:
        """Return a right operand with steps of the depth as rows."""
        return source

    def left_size(self, count: int, size: int, *, has_gaps: bool) -> int:
        """Return the size of the copy of `count` rows of `size` elements as a left operand."""
        return count * size if has_gaps else 0

    def left(self, f: Function, source: Matrix, count: int, size: int, copy: Value | None) -> Matrix:
        """Return rows as a left operand, from a copy if they have gaps.

        Tiles read rows many times, and rows with gaps fall into few cache sets and many pages.
        """
        return source if copy is None else self._copied(f, source, count, size, copy)

    def right_size(self, steps: int, size: int, *, has_gaps: bool) -> int:
        """Return the size of the copy of rows of `size` elements as a right operand whose depth they are."""
        return steps * size if has_gaps else 0

    def write_right(self, f: Function, source: Matrix, count: int, size: int, copy: Value | None) -> None:
        """Copy all rows of a head as a right operand, if it is a copy."""
        if copy is not None:
            self._copied(f, source, count, size, copy)

    def right(self, source: Matrix, size: int, copy: Value | None) -> Matrix:
        """Return rows as a right operand that `write_right` or `block_operand` has written."""
        return source if copy is None else Matrix(copy, size)

    def block_left_size(self, size: int, *, has_gaps: bool) -> int:
        """Return the size of the copy of the rows of a block as a left operand beside the right one."""
        return 0

    def block_operand(
        self, f: Function, source: Matrix, count: int, size: int, step: Value, right: Value | None, left: Value | None
    ) -> Matrix:
        """Write rows of a block to a right operand, from a numbered step on, and return them as a left operand."""
        return source if right is None else self._copied(f, source, count, size, right + step * size)

    def _copied(self, f: Function, source: Matrix, count: int, size: int, copy: Value) -> Matrix:
        to = Matrix(copy, size)
        copy_rows(f, source, to, count, size)
        return to

    def elements(self, source: Matrix) -> Matrix:
        """Return rows whose elements can be read as the type of sums."""
        return source

    # Factors of the gradients.

    @property
    def block_scores_size(self) -> int:
        """Size of the weights of a block, or of their gradients, if they are not the factors themselves."""
        return 0

    def store_factors(
        self,
        f: Function,
        weights: Sequence[Value],
        scores: Sequence[Value],
        to: Sequence[Value],
        gradients: Sequence[Value],
        j: Index,
    ) -> None:
        """Store weights and gradients of scores of the queries of a step, as factors for keys from `j` on.

        Args:
            f: the function under construction.
            weights: a vector for each query.
            scores: gradients of scores, likewise.
            to: addresses of the rows of both factors.
            gradients: addresses of the rows of gradients of weights, which those of scores replace.
            j: the first key.
        """
        for x, at in zip((*weights, *scores), to, strict=True):
            f.store(x, at, j)

    # Products.

    def by_keys(
        self,
        f: Function,
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
        """Write scores, the products of queries with panels of keys; or gradients of weights, those of dy with values.

        Whole panels are computed, and so some keys that nothing sees; lanes beyond the last key become `beyond`, up to
        the end of a nominal vector.
        """
        heads, panel, lanes, depth = self.heads, self.heads.panel, self.heads.lanes, self.steps(size)
        whole = heads.keys // panel * panel
        for j in range(-(-heads.keys // lanes) * lanes, heads.wide, lanes):
            for i in f.range(0, rows):
                f.store(f.constant(self.vector, beyond), to, f.index(i) * heads.row + j)

        def columns(j: Index, count: int) -> None:
            right, across = Matrix(panels + j * depth, panel), -(-count // lanes) * lanes
            tiles = in_tiles(f, rows, heads.score_tile[0])
            sums = ((i, self._tile(f, left.moved(i, 0), right, height, across, depth, depth)) for i, height in tiles)
            self._store_scores(f, sums, count, to + j, scale, beyond)

        for j in f.range(0, whole if isinstance(seen, int) else minimum(seen, whole), panel):
            columns(j, panel)
        if whole == heads.keys:
            return
        if isinstance(seen, int):
            columns(whole, heads.keys - whole)
            return
        with f.when(seen > whole):
            columns(whole, heads.keys - whole)

    def _store_scores(
        self, f: Function, tiles: Iterable[tuple[Index, Sums]], count: int, to: Value, scale: float, beyond: float
    ) -> None:
        """Store the tiles of one panel, which has `count` keys, from their first rows on."""
        lanes = self.heads.lanes
        for i, sums in tiles:
            for r, row in enumerate(sums):
                for c, one in enumerate(row):
                    x, tail = one * scale, count - c * lanes
                    x = x if tail >= lanes else where(first(x, tail), x, beyond)
                    f.store(x, to, (i + r) * self.heads.row + c * lanes)

    def over_keys(
        self, f: Function, rows: int, left: Matrix, right: Matrix, size: int, seen: Index, epilogue: Epilogue
    ) -> None:
        """Compute the products of weights, or of gradients of scores, with a row of `size` elements for each key."""
        keys = computed(self.heads, seen, self.heads.keys)
        depth = self.steps(keys) if isinstance(keys, int) else self._steps_of(keys)
        self._product(f, rows, size, left, right, self.steps(self.heads.keys), depth, epilogue)

    def _steps_of(self, size: Value) -> Value:
        return size

    def of_keys(
        self, f: Function, left: Value, right: Matrix, size: int, start: Index, stop: Index, key: Index, to: Matrix
    ) -> None:
        """Add to the rows of a panel of keys the products of factors and rows of queries, from step `start` to `stop`.

        `to` begins at the row of the first key.
        """
        heads, most = self.heads, self.heads.together * self.block_steps

        def add(count: int) -> None:
            def epilogue(x: Value, i: Index, j: Index, tail: int) -> None:
                at = to.moved(key + i, j).at
                f.store(f.load(at, 0, heads.lanes, tail) + x, at, 0, tail)

            factors = Matrix(left + (start * heads.row + key), 1, heads.row)
            self._product(f, count, size, factors, right.moved(start, 0), most, stop - start, epilogue)

        in_panel(f, heads, key, add)

    def _product(
        self, f: Function, m: int, n: int, left: Matrix, right: Matrix, most: int, depth: Index, epilogue: Epilogue
    ) -> None:
        """Compute a product of m rows and n columns, with a depth of at most `most` steps."""
        lanes, (height, vectors) = self.heads.lanes, self._shape(m, n)
        for j, columns in in_blocks(f, n, vectors * lanes):
            block = self._block_of_columns(f, right, j, most)
            for i, size in in_tiles(f, m, height):
                sums = self._tile(f, left.moved(i, 0), block, size, columns, depth, most)
                for r, line in enumerate(sums):
                    for c, x in enumerate(line):
                        epilogue(x, i + r, j + c * lanes, min(lanes, columns - c * lanes))

    def _shape(self, m: int, n: int) -> tuple[int, int]:
        """Return the rows and vectors of a tile."""
        return tile_shape(self.heads.target, self.heads.lanes, m, n)

    def _block_of_columns(self, f: Function, right: Matrix, j: Index, most: int) -> Matrix:
        """Return the columns of a right operand from column j on, for one tile."""
        return right.moved(0, j)

    def _tile(self, f: Function, left: Matrix, right: Matrix, rows: int, columns: int, depth: Index, most: int) -> Sums:
        """Return the sums of a tile; parts of the depth are added in order."""
        vector, pairs = self.vector, PairForm() if self.heads.of_pairs else None
        if most <= MAX_CHAIN_DEPTH:
            is_known = isinstance(depth, int)
            return tile(left, right, rows, columns, vector, depth, has_whole_block=is_known, pairs=pairs)
        across = -(-columns // self.heads.lanes)
        loop = f.loop(0, depth, MAX_CHAIN_DEPTH, [f.constant(vector, 0)] * (rows * across))
        for p, totals in loop:
            part = minimum(f.index(depth) - p, MAX_CHAIN_DEPTH)
            a, b = left.moved(0, p), right.moved(p, 0)
            sums = tile(a, b, rows, columns, vector, part, has_whole_block=False, pairs=pairs)
            loop.carry([x + y for x, y in zip(totals, (x for row in sums for x in row), strict=True)])
        return lines(loop.results, rows)


def store_as(x: Value, to: Value, tail: int) -> None:
    """Store the first `tail` lanes of a vector, rounded if the elements at the address are bfloat16."""
    to.function.store(convert(x, to.element), to, 0, tail)


def in_panel(f: Function, heads: Heads, key: Index, add: Callable[[int], None]) -> None:
    """Call `add` with the number of keys of the panel whose first key is `key`; the last panel may have fewer."""
    whole = heads.keys // heads.panel * heads.panel
    if isinstance(key, int):
        add(min(heads.panel, heads.keys - key))
        return
    if whole == heads.keys:
        add(heads.panel)
        return
    is_whole = key < whole
    with f.when(is_whole):
        add(heads.panel)
    with f.when(~is_whole):
        add(heads.keys - whole)


def computed(heads: Heads, seen: Index, most: int) -> Index:
    """Return the number of keys of the nominal panels that are computed, at most `most`."""
    if isinstance(seen, int):
        return most
    return minimum((seen + (heads.nominal_panel - 1)) // heads.nominal_panel * heads.nominal_panel, most)


def first_of_panel(heads: Heads, key: Index) -> Index:
    """Return the first key of the nominal panel of this one, which is the first of a panel."""
    return key if heads.panel == heads.nominal_panel else key // heads.nominal_panel * heads.nominal_panel

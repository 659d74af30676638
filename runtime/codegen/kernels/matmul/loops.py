"""The loops around the tile: columns in blocks, the depth in blocks, rows in blocks, then panels and tiles.

    plan = plan_product(target, 32, m, n, k, (k, 1), (n, 1))
    c = Matrix(result, n)
    product(f, plan, FLOAT32, m, n, k, Matrix(a, k), Matrix(b, n), stored(c), partial=c, scratch=room)

The caller decides about finished vectors: `stored` writes them; an epilogue adds a bias, takes a maximum, or updates a
parameter and keeps no gradient. If the depth is split, sums are stored in `partial`, which may be the result itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from runtime.codegen.ir import Function, Index, Type, Value
from runtime.codegen.ir.words import where
from runtime.codegen.kernels.depth import UNROLLED_DEPTH_STEPS
from runtime.codegen.kernels.matmul.few_pairs import FewPairs
from runtime.codegen.kernels.matmul.matrix import Matrix, Operand, PairedMatrix
from runtime.codegen.kernels.matmul.packing import packed_left, packed_right
from runtime.codegen.kernels.matmul.plan import SUMS_GAP, MatmulPlan, shares
from runtime.codegen.kernels.matmul.streamed import Streamed
from runtime.codegen.kernels.matmul.tile import Sums, tile
from runtime.codegen.kernels.split import in_blocks, least_of
from runtime.codegen.kernels.tiles import add_rows
from runtime.codegen.machine import CACHE_LINE_BYTES

Epilogue = Callable[[Value, Index, Index, int], None]
"""Takes a finished vector, its row, its first column, and the number of its lanes that are columns of the result."""

Panels = Callable[[Index, Index], Value]
"""From the row and the column of the right operand at which a block begins, to the address of its panels."""


class PrefetchedOperand(NamedTuple):
    """An operand that is prefetched.

    Attributes:
        matrix: the operand, with rows along the depth.
        columns: number of its columns.
        next: the operand that is prefetched in the last block of the depth: the first one of the next product.
    """

    matrix: Matrix
    columns: int
    next: Matrix


def stored(result: Matrix) -> Epilogue:
    """Return an epilogue that writes finished vectors along the rows of the result."""

    def store(x: Value, i: Index, j: Index, count: int) -> None:
        x.function.store(x, result.moved(i, j).at, 0, count)

    return store


def product(
    f: Function,
    plan: MatmulPlan,
    element: Type,
    m: int,
    n: int,
    k: int,
    left: Operand,
    right: Operand,
    epilogue: Epilogue | None,
    *,
    partial: Matrix | None = None,
    scratch: Value | None = None,
    panels: Panels | None = None,
    beside: Sequence[Matrix] = (),
    ahead: Sequence[PrefetchedOperand] = (),
) -> None:
    """Write the product of m x k by k x n.

    Args:
        f: the function under construction.
        plan: from `plan_product` with the same numbers and strides.
        element: type of the result's elements.
        m: rows of the result.
        n: its columns.
        k: the depth.
        left: m x k; packed by the plan if it is computed or consists of pairs that are not in memory.
        right: k x n; likewise, or there are panels.
        epilogue: function that takes every vector of the result, once; without one the result stays in `partial`.
        partial: m x n elements for sums; needed if the plan has more than one depth.
        scratch: `plan.scratch` elements; needed if that is not 0.
        panels: address of a copy of the right operand in panels, if there is one; the plan then copies none, and each
            panel is prefetched during the products of the one before it.
        beside: matrices of m x n elements that the epilogue reads or writes: prefetched during the products of a tile.
        ahead: operands that are prefetched during the block of the depth before theirs.
    """
    assert plan.depths == 1 or partial is not None, "sums of a depth that is cut need a place"
    assert not plan.scratch or scratch is not None, "copies of operands need a place"
    if epilogue is None and plan.depths == 1:
        assert partial is not None, "the result needs a place"
        epilogue = stored(partial)
    vector = element.of(plan.lanes)
    if plan.reads_pairs:
        assert epilogue is not None, "sums of all blocks of the depth stay in registers"
        _product_of_few_pairs(f, plan, vector, (m, n, k), left, right, epilogue, scratch)
        return
    if plan.is_streamed:
        _streamed_product(f, plan, vector, (m, n, k), left, right, epilogue, partial, scratch)
        return
    for j, columns in in_blocks(f, n, plan.block_columns):
        for p in f.range(0, k, plan.depth) if k else [0]:
            part = _BlockTiles(f, plan, vector, k, p, epilogue, partial, j, beside, ahead)
            b = right.moved(p, j)
            if panels is not None:
                b = Matrix(panels(p, j), plan.width)
                part.next_panels = _next_panels(f, panels, j, columns, p, plan, k)
            elif plan.pack_right and scratch is not None:
                to = scratch + plan.left_scratch
                most, rest = plan.depth, plan.chains_rest
                packed_right(f, b, to, part.depth, columns, plan.width, most, vector, chains_rest=rest)
                b = Matrix(to, plan.width)
            part.blocks(left.moved(0, p), b, m, columns, scratch, by_panels=plan.pack_right or panels is not None)


def _streamed_product(
    f: Function,
    plan: MatmulPlan,
    vector: Type,
    size: tuple[int, int, int],
    left: Operand,
    right: Operand,
    epilogue: Epilogue | None,
    partial: Matrix | None,
    scratch: Value | None,
) -> None:
    """Write a product whose right operand is read row by row; see `streamed`."""
    assert scratch is not None, "sums need a place"
    m, n, k = size
    for j, columns in in_blocks(f, n, plan.block_columns):
        streamed = Streamed(f, vector, m, columns, Matrix(scratch + plan.left_scratch, plan.block_columns + SUMS_GAP))
        for p in f.range(0, k, plan.depth):
            depth: Index = k if plan.depths == 1 else least_of(k - p, plan.depth)
            a = left.moved(0, p)
            if plan.pack_left:
                a = packed_left(f, a, scratch, m, depth, plan.apart, vector)
            streamed.chains(a, right.moved(p, j), depth)
            at = partial.moved(0, j) if partial is not None and plan.depths > 1 else streamed.sums
            if plan.depths > 1:
                streamed.add_to(at, is_first=f.index(p).equal(0))
            if epilogue is None:
                continue
            with f.when(f.index(p) >= k - plan.depth):
                streamed.finish(at, j, epilogue)


def _product_of_few_pairs(
    f: Function,
    plan: MatmulPlan,
    vector: Type,
    size: tuple[int, int, int],
    left: Operand,
    right: Operand,
    epilogue: Epilogue,
    scratch: Value | None,
) -> None:
    """Write a product of few rows of pairs; see `few_pairs`."""
    assert scratch is not None, "the copy of the left operand needs a place"
    assert isinstance(right, PairedMatrix), "the right operand consists of pairs"
    m, n, k = size
    few = FewPairs(f, vector, m, k, plan.depth, scratch)
    few.copy(left)
    for j, columns in in_blocks(f, n, plan.lanes):
        for r, x in enumerate(few.columns(right.moved(0, j), columns)):
            epilogue(x, r, j, columns)


class _BlockTiles:
    """The tiles of one block of columns at one block of the depth."""

    def __init__(
        self,
        f: Function,
        plan: MatmulPlan,
        vector: Type,
        k: int,
        p: Index,
        epilogue: Epilogue | None,
        partial: Matrix | None,
        j: Index,
        beside: Sequence[Matrix],
        ahead: Sequence[PrefetchedOperand],
    ) -> None:
        self.f, self.plan, self.vector, self.p, self.k, self.j = f, plan, vector, p, k, j
        self.epilogue, self.partial = epilogue, partial if plan.depths > 1 else None
        self.beside = beside
        self.depth: Index = min(k, plan.depth) if plan.is_even else least_of(k - p, plan.depth)
        self.next_panels: Value | None = (
            None  # address of the panels of the next block of the depth, if they are prefetched
        )
        self.next_panel: Value | None = None
        self.ahead = [(_following(each, f.index(p) + self.depth, k), each) for each in ahead]

    def blocks(
        self, left: Operand, b: Operand, m: int, columns: int, scratch: Value | None, *, by_panels: bool
    ) -> None:
        """Compute all tiles, one block of rows after the other; the left operand is packed if the plan says so."""
        assert isinstance(b, Matrix), "computed operands are packed"
        for i, rows in in_blocks(self.f, m, self.plan.block_rows):
            a = left.moved(i, 0)
            if self.plan.pack_left and scratch is not None:
                apart, rest = self.plan.apart, self.plan.chains_rest
                a = packed_left(self.f, a, scratch, rows, self.depth, apart, self.vector, chains_rest=rest)
            assert isinstance(a, Matrix), "computed operands are packed"
            self.panels(a, b, i, rows, columns, by_panels=by_panels)

    def panels(self, a: Matrix, b: Matrix, i: Index, rows: int, columns: int, *, by_panels: bool) -> None:
        """Compute all tiles of a block of rows: panel by panel, or all panels for the rows of a tile."""
        if self.plan.repeats_panels and by_panels:
            self.rows(a, b, i, rows, columns)
            return
        for j, width in in_blocks(self.f, columns, self.plan.width):
            beside = replace(b, at=b.at + j * self.plan.depth * self.plan.elements) if by_panels else b.moved(0, j)
            if self.next_panels is not None:
                is_last = self.f.index(j) + width >= columns
                self.next_panel = where(
                    is_last, self.next_panels, beside.at + width * self.plan.depth * self.plan.elements
                )
            for r, size in in_tiles(self.f, rows, self.plan.rows):
                along = self._along(self._asked(j, r, size, rows, columns))
                self.tile(a.moved(r, 0), beside, i + r, self.j + j, size, width, along)

    def rows(self, a: Matrix, b: Matrix, i: Index, rows: int, columns: int) -> None:
        """Compute all tiles of a block of rows, with all panels for the rows of a tile before the next rows.

        The panels stay in the second-level cache and are read in the order of memory. The rows of a tile of AMX, which
        are far apart and as many bytes as a panel, stay in the first-level cache.
        """
        depth = self.plan.depth * self.plan.elements
        for r, size in in_tiles(self.f, rows, self.plan.rows):
            for j, width in in_blocks(self.f, columns, self.plan.width):
                along = self._along(self._asked(j, r, size, rows, columns))
                self.tile(a.moved(r, 0), replace(b, at=b.at + j * depth), i + r, self.j + j, size, width, along)

    def _along(self, asked: list[tuple[Value, Index]]) -> Callable[[Index], None] | None:
        """Return a function that prefetches these addresses, for each step of the depth in rows of this stride."""
        if not asked:
            return None

        def along(k: Index) -> None:
            for at, row in asked:
                self.f.prefetch(at, k * row, 2)

        return along

    def _asked(self, j: Index, r: Index, size: int, rows: int, columns: int) -> list[tuple[Value, Index]]:
        """Return the share of a tile in the next data: cache lines of some steps of the depth."""
        panels, line = -(-columns // self.plan.width), CACHE_LINE_BYTES * 8 // self.vector.bits
        asked: list[tuple[Value, Index]] = []
        if self.next_panel is not None:
            lines = UNROLLED_DEPTH_STEPS * self.plan.panel_row // line
            at = self.next_panel + self.f.index(r) * lines // rows * line
            asked += [(at + n * line, self.plan.panel_row) for n in range(-(-lines * size // rows))]
        for at, each in self.ahead:
            lines = -(-each.columns // line)
            first = (self.f.index(j) // self.plan.width * rows + r) * (lines * UNROLLED_DEPTH_STEPS) // (panels * rows)
            for n in range(-(-lines * UNROLLED_DEPTH_STEPS * size // (panels * rows))):
                slot = first + n
                asked.append((at + (slot // lines * each.matrix.row + slot % lines * line), each.matrix.row))
        return asked

    def tile(
        self,
        a: Matrix,
        b: Matrix,
        i: Index,
        j: Index,
        rows: int,
        columns: int,
        along: Callable[[Index], None] | None = None,
    ) -> None:
        """Compute one tile: its sums go to the epilogue, or are stored for the next block of the depth."""
        if self.partial is None:
            for matrix in self.beside:
                self._ask_for(matrix.moved(i, j), rows, columns)
            sums = self._sums(a, b, rows, columns, along)
            assert self.epilogue is not None, "one depth has one"
            for r, c, tail, x in self._vectors(sums, columns):
                self.epilogue(x, i + r, j + c, tail)
            return
        at = self.partial.moved(i, j)
        self._ask_for(at, rows, columns)
        assert at.column == 1, "rows of sums are contiguous"
        add_rows(self._sums(a, b, rows, columns, along), at.at, at.row, columns, self.f.index(self.p).equal(0))
        if self.epilogue is None:
            return
        with self.f.when(self.f.index(self.p) >= self.k - self.plan.depth):
            for r in self.f.range(0, rows):
                for c in range(0, columns, self.plan.lanes):
                    tail = min(self.plan.lanes, columns - c)
                    self.epilogue(at.along_row(r, c, self.plan.lanes, tail), i + r, j + c, tail)

    def _sums(self, a: Matrix, b: Matrix, rows: int, columns: int, along: Callable[[Index], None] | None) -> Sums:
        plan, last = self.plan, self.k % self.plan.depth if self.plan.depth else 0
        is_whole = not 0 < last < UNROLLED_DEPTH_STEPS
        operands = (a, b, rows, columns, self.vector, self.depth)
        return tile(*operands, has_whole_block=is_whole, along=along, pairs=plan.pairs)

    def _ask_for(self, at: Matrix, rows: int, columns: int) -> None:
        """Prefetch stored sums, which are needed at the end of a tile and may be in no cache until then."""
        for r in range(rows):
            for c in range(0, columns, CACHE_LINE_BYTES * 8 // self.vector.bits):
                self.f.prefetch(at.at, r * at.row + c)

    def _vectors(self, sums: Sums, columns: int) -> Iterator[tuple[int, int, int, Value]]:
        """Give row, first column, number of lanes that count, and the vector."""
        for r, row in enumerate(sums):
            for c, x in enumerate(row):
                yield r, c * self.plan.lanes, min(self.plan.lanes, columns - c * self.plan.lanes), x


def in_tiles(f: Function, total: int, most: int) -> Iterator[tuple[Index, int]]:
    """Give starts and sizes of at most `most`, as equal as possible: a loop for each size."""
    return in_shares(f, shares(total, most))


def in_shares(f: Function, tiles: Iterable[tuple[int, int]]) -> Iterator[tuple[Index, int]]:
    """Give starts and sizes of tiles, from their sizes and the number of each."""
    start = 0
    for size, count in tiles:
        for i in f.range(start, start + size * count, size):
            yield i, size
        start += size * count


def _next_panels(f: Function, panels: Panels, j: Index, columns: int, p: Index, plan: MatmulPlan, k: int) -> Value:
    """Return the address of the next panels: of the next block of the depth, or of the next columns."""
    end = f.index(p) + plan.depth
    return where(end >= k, panels(0, j + columns), panels(end, j))


def _following(ahead: PrefetchedOperand, p: Value, k: int) -> Value:
    """Return the address of the next block of the depth: from p on, or if that is the end, the first of `next`."""
    return where(p >= k, ahead.next.at, ahead.matrix.moved(p, 0).at)

"""The loops around the tile: columns in blocks, the depth in blocks, rows in blocks, then panels and tiles.

    plan = plan_product(target, 32, m, n, k, (k, 1), (n, 1))
    c = Matrix(result, n)
    product(f, plan, FLOAT32, m, n, k, Matrix(a, k), Matrix(b, n), stored(c), partial=c, scratch=room)

What happens to a finished vector is the caller's: `stored` writes it; an epilogue adds a bias, takes a maximum, or
updates a parameter and keeps no gradient. If the depth is cut, sums wait in `partial`, which may be the result itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from runtime.engines.native.ir import Function, Index, Type, Value
from runtime.engines.native.ir.words import minimum
from runtime.engines.native.product.matrix import Matrix
from runtime.engines.native.product.packing import packed_left, packed_right
from runtime.engines.native.product.plan import Plan, shares
from runtime.engines.native.product.tile import tile

Epilogue = Callable[[Value, Index, Index, int], None]
"""Takes a finished vector, its row, its first column, and how many of its lanes are columns of the result."""


def stored(result: Matrix) -> Epilogue:
    """Write finished vectors to where the result lies, along its rows."""

    def store(x: Value, i: Index, j: Index, count: int) -> None:
        x.function.store(x, result.moved(i, j).at, 0, count)

    return store


def product(
    f: Function,
    plan: Plan,
    element: Type,
    m: int,
    n: int,
    k: int,
    left: Matrix,
    right: Matrix,
    epilogue: Epilogue,
    *,
    partial: Matrix | None = None,
    scratch: Value | None = None,
) -> None:
    """Write the product of m x k by k x n.

    Args:
        f: where it is written.
        plan: from `plan_product` with the same numbers and strides.
        element: of the result.
        m: rows of the result.
        n: its columns.
        k: the depth.
        left: m x k.
        right: k x n.
        epilogue: what is done with every vector of the result, once.
        partial: m x n elements in which sums may wait; needed if the plan has more than one depth.
        scratch: `plan.scratch` elements; needed if that is not 0.
    """
    assert plan.depths == 1 or partial is not None, "sums of a depth that is cut need a place"
    assert not plan.scratch or scratch is not None, "copies of operands need a place"
    vector = element.of(plan.lanes)
    for j, columns in _blocks(f, n, plan.block_columns):
        for p in f.range(0, k, plan.depth) if k else [0]:
            part = _Part(f, plan, vector, k, p, epilogue, partial, j)
            b = right.moved(p, j)
            if plan.pack_right and scratch is not None:
                to = scratch + plan.left_scratch
                packed_right(f, b, to, part.depth, columns, plan.width, plan.depth, vector)
                b = Matrix(to, plan.width)
            for i, rows in _blocks(f, m, plan.block_rows):
                a = left.moved(i, p)
                if plan.pack_left and scratch is not None:
                    a = packed_left(f, a, scratch, rows, part.depth, plan.apart, vector)
                part.panels(a, b, i, rows, columns)


class _Part:
    """The tiles of one block of columns at one block of the depth."""

    def __init__(
        self,
        f: Function,
        plan: Plan,
        vector: Type,
        k: int,
        p: Index,
        epilogue: Epilogue,
        partial: Matrix | None,
        j: Index,
    ) -> None:
        self.f, self.plan, self.vector, self.p, self.k, self.j = f, plan, vector, p, k, j
        self.epilogue, self.partial = epilogue, partial
        self.depth: Index = k if plan.depths == 1 else _least(k - p, plan.depth)

    def panels(self, a: Matrix, b: Matrix, i: Index, rows: int, columns: int) -> None:
        """All tiles of a block of rows, panel by panel."""
        for j, width in _blocks(self.f, columns, self.plan.width):
            beside = replace(b, at=b.at + j * self.plan.depth) if self.plan.pack_right else b.moved(0, j)
            start = 0
            for size, count in shares(rows, self.plan.rows):
                for r in self.f.range(start, start + size * count, size):
                    self.tile(a.moved(r, 0), beside, i + r, self.j + j, size, width)
                start += size * count

    def tile(self, a: Matrix, b: Matrix, i: Index, j: Index, rows: int, columns: int) -> None:
        """One tile: its sums go to the epilogue, or wait for those of the next block of the depth."""
        f, lanes = self.f, self.plan.lanes
        sums = tile(f, a, b, rows, columns, self.vector, self.depth)
        if self.partial is None or self.plan.depths == 1:
            for r, row in enumerate(sums):
                for c, x in enumerate(row):
                    self.epilogue(x, i + r, j + c * lanes, min(lanes, columns - c * lanes))
            return
        at = self.partial.moved(i, j)
        first = f.index(self.p).equal(0)
        with f.when(first):
            for place, tail, x in self._places(at, sums, columns):
                f.store(x, place, 0, tail)
        with f.when(~first):
            for place, tail, x in self._places(at, sums, columns):
                f.store(f.load(place, 0, lanes, tail) + x, place, 0, tail)
        with f.when(f.index(self.p) >= self.k - self.plan.depth):
            for r in f.range(0, rows):
                for c in range(0, columns, lanes):
                    tail = min(lanes, columns - c)
                    self.epilogue(f.load(at.moved(r, c).at, 0, lanes, tail), i + r, j + c, tail)

    def _places(self, at: Matrix, sums: list[list[Value]], columns: int) -> Iterator[tuple[Value, int, Value]]:
        lanes = self.plan.lanes
        for r, row in enumerate(sums):
            for c, x in enumerate(row):
                yield at.moved(r, c * lanes).at, min(lanes, columns - c * lanes), x


def _blocks(f: Function, total: int, most: int) -> Iterator[tuple[Index, int]]:
    """Starts and sizes: a loop over whole blocks, and what is left."""
    whole = total // most * most
    for i in f.range(0, whole, most):
        yield i, most
    if whole < total:
        yield whole, total - whole


def _least(a: Index, b: int) -> Index:
    return min(a, b) if isinstance(a, int) else minimum(a, b)

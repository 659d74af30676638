"""Few rows times a right operand that is read once, row by row, as it lies.

A pass has a few rows of the right operand and a range of columns that is at least a page wide: the hardware prefetches
along pages, but no column of tiles, whose rows are pages apart. The sums stay in the nearest cache from pass to pass,
and the rows of the next pass are prefetched. An element is the sum of the same chains as in a tile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from runtime.codegen.ir import Function, Index, Type, Value
from runtime.codegen.kernels.matmul.matrix import ComputedMatrix, Matrix, Operand
from runtime.codegen.machine import CACHE_LINE_BYTES

ROWS_PER_PASS: Final = 4
"""Rows of the right operand of a pass: each has a register for an element of each row of the left operand."""

ROWS_AHEAD: Final = 8
"""Distance of prefetches, in rows of the right operand."""


class Streamed:
    """The passes over one block of the depth, for a range of columns.

    Args:
        f: the function under construction.
        vector: type of vectors of the result.
        m: rows of the left operand.
        columns: number of columns.
        sums: m rows of memory for the chains.
    """

    def __init__(self, f: Function, vector: Type, m: int, columns: int, sums: Matrix) -> None:
        self.f, self.vector, self.m, self.columns, self.sums = f, vector, m, columns, sums

    def chains(self, left: Operand, right: Operand, depth: Index) -> None:
        """Compute the chains of a block of the depth."""
        self._vectors(lambda r, j, tail: self._store(self.f.constant(self.vector, 0), r, j, tail))
        rows = ROWS_PER_PASS
        whole = depth // rows * rows if isinstance(depth, int) else depth & -rows
        for start, stop, count in ((0, whole, rows), (whole, depth, 1)):
            for p in self.f.range(start, stop, count):
                self._pass(left.moved(0, p), right.moved(p, 0), count)

    def add_to(self, at: Matrix, is_first: Value) -> None:
        """Store the chains of the first block of the depth, and add those of others."""
        lanes = self.vector.lanes
        with self.f.when(is_first):
            self._vectors(lambda r, j, tail: self.f.store(self._sum(r, j, tail), at.moved(r, j).at, 0, tail))
        with self.f.when(~is_first):
            self._vectors(
                lambda r, j, tail: self.f.store(
                    at.along_row(r, j, lanes, tail) + self._sum(r, j, tail), at.moved(r, j).at, 0, tail
                )
            )

    def finish(self, at: Matrix, column: Index, epilogue: Callable[[Value, Index, Index, int], None]) -> None:
        """Pass all sums to the epilogue; `column` is the number of the first."""
        lanes = self.vector.lanes
        self._vectors(lambda r, j, tail: epilogue(at.along_row(r, j, lanes, tail), r, column + j, tail or lanes))

    def _vectors(self, write: Callable[[int, Index, int | None], None]) -> None:
        """Write a loop over the vectors of all sums: `write(row, first column, tail)`."""
        lanes = self.vector.lanes
        whole = self.columns // lanes * lanes
        for r in range(self.m):
            for j in self.f.range(0, whole, lanes):
                write(r, j, None)
            if whole < self.columns:
                write(r, whole, self.columns - whole)

    def _sum(self, r: int, j: Index, tail: int | None) -> Value:
        return self.sums.along_row(r, j, self.vector.lanes, tail)

    def _pass(self, left: Operand, right: Operand, rows: int) -> None:
        f, lanes = self.f, self.vector.lanes
        factors = [[f.splat(left.element(r, p), lanes) for p in range(rows)] for r in range(self.m)]
        line = max(CACHE_LINE_BYTES * 8 // self.vector.bits, lanes)
        whole = self.columns // line * line

        def add(j: Index, tail: int | None) -> None:
            read = [right.along_row(p, j, lanes, tail) for p in range(rows)]
            for r, of_row in enumerate(factors):
                x = self._sum(r, j, tail)
                for factor, y in zip(of_row, read, strict=True):
                    x = f.fma(factor, y, x)
                self._store(x, r, j, tail)

        ahead = [stream.moved(p + ROWS_AHEAD, 0) for stream in _streams(right) for p in range(rows)]
        for j in f.range(0, whole, line):
            for stream in ahead:
                f.prefetch(stream.at, j, 2)
            for v in range(0, line, lanes):
                add(j + v, None)
        for j in range(whole, self.columns, lanes):
            add(j, min(lanes, self.columns - j))

    def _store(self, x: Value, r: int, j: Index, tail: int | None) -> None:
        self.f.store(x, self.sums.moved(r, j).at, 0, tail)


def _streams(right: Operand) -> list[Matrix]:
    """Return the matrices in memory from which the right operand is computed, or the operand itself."""
    if isinstance(right, Matrix):
        return [right]
    assert isinstance(right, ComputedMatrix), "pairs are packed"
    first = right.i + right.operand.first
    return [Matrix(at, right.row).moved(first, right.j) for at in right.operand.operands]

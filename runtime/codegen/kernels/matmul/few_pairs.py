"""Few rows of pairs of bfloat16 times a right operand that is contiguous along the depth and is read once, as it lies.

A vector is a vector of columns, such as rows of weights. The words of a group of the depth are transposed in registers,
widened, and multiplied by the elements of the left operand, which are copied once. An element is the sum of the same
chains as in a tile, see `pair_chains`. The rows of weights of the next vector are prefetched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from runtime.codegen.ir import Function, Index, Type, Value
from runtime.codegen.ir.words import transposed
from runtime.codegen.kernels.matmul.matrix import Matrix, Operand, PairedMatrix
from runtime.codegen.kernels.matmul.packing import has_vectors, pieces
from runtime.codegen.kernels.pair_products import (
    GROUP_PAIRS,
    added_without_mode,
    flushed,
    sum_without_mode,
    widened_half,
)

HALVES = (0, 1)
"""The elements of a pair."""

Arithmetic = tuple[Callable[[Value, Value, Value], Value], Callable[[Value, Value], Value]]
"""A multiply-add and an addition."""


class FewPairs(NamedTuple):
    """The products of a few rows.

    Attributes:
        f: the function under construction.
        vector: type of vectors of the result.
        m, k: rows of the left operand, and pairs of the depth.
        block: pairs of a block of the depth; the last block may be smaller.
        left: memory for 2 * m * k elements of the left operand.
    """

    f: Function
    vector: Type
    m: int
    k: int
    block: int
    left: Value

    def copy(self, left: Operand) -> None:
        """Widen the left operand: the first elements of the pairs of a row, then the second ones."""
        lanes = self.vector.lanes if left.column == 1 and has_vectors(left) else 0
        for r in range(self.m):
            for p, count in pieces(self.f, self.k, lanes):
                pairs = left.along_row(r, p, count)
                for half in HALVES:
                    self.f.store(widened_half(pairs, half), self._left(r, half), p)

    def columns(self, right: PairedMatrix, count: int) -> list[Value]:
        """Return a vector for each row, with the products by `count` columns, at most one vector of them."""
        f, last = self.f, self.k - (self.k - 1) // self.block * self.block
        sums = self._block(right, 0, min(self.block, self.k), count)
        if self.k <= self.block:
            return sums
        loop = f.loop(self.block, self.k - last, self.block, sums)
        for p, carried in loop:
            loop.carry([x + y for x, y in zip(carried, self._block(right, p, self.block, count), strict=True)])
        return [x + y for x, y in zip(loop.results, self._block(right, self.k - last, last, count), strict=True)]

    def _block(self, right: PairedMatrix, p: Index, depth: int, count: int) -> list[Value]:
        """Return the sums of a block of `depth` pairs from pair p on."""

        def added(arithmetic: Arithmetic, sums: list[Value], zero: Value) -> list[Value]:
            whole = depth // GROUP_PAIRS * GROUP_PAIRS
            loop = self.f.loop(0, whole, GROUP_PAIRS, sums)
            for i, carried in loop:
                loop.carry(self._group(right, p + i, GROUP_PAIRS, count, arithmetic, carried, zero))
            if whole == depth:
                return loop.results
            return self._group(right, p + whole, depth - whole, count, arithmetic, loop.results, zero)

        sums = [self.f.constant(self.vector, 0)] * self.m
        without_mode: Arithmetic = (added_without_mode, sum_without_mode)
        return flushed(self.f, sums, partial(added, (self.f.fma, Value.__add__)), partial(added, without_mode))

    def _group(
        self,
        right: PairedMatrix,
        p: Index,
        pairs: int,
        count: int,
        arithmetic: Arithmetic,
        sums: list[Value],
        zero: Value,
    ) -> list[Value]:
        """Return the sums after the products of a group of pairs; one that is not whole ends with zeros."""
        add, plus = arithmetic
        self._prefetch(right, p, count)
        chains = [[zero, zero] for _ in range(self.m)]
        for q, words in self._words(right, p, pairs, count):
            elements = [widened_half(words, half) for half in HALVES]
            for r, of_row in enumerate(chains):
                for half in HALVES:
                    x = self.f.splat(self.f.load(self._left(r, half), p + q), self.vector.lanes)
                    of_row[half] = add(x, elements[half], of_row[half])
        if pairs < GROUP_PAIRS:
            chains = [[x + zero for x in of_row] for of_row in chains]
        return [plus(x, plus(second, first)) for x, (first, second) in zip(sums, chains, strict=True)]

    def _words(self, right: PairedMatrix, p: Index, pairs: int, count: int) -> Iterator[tuple[int, Value]]:
        """Yield the numbers of the pairs of a group, and vectors with that pair of each column.

        The last vectors along the depth end where the group does, so that they also have pairs before it.
        """
        lanes = self.vector.lanes
        for start in range(0, pairs, lanes):
            first = min(start, pairs - lanes)
            square = [right.along_column(p + first, c, lanes) for c in range(count)]
            square += [self.f.constant(self.vector, 0)] * (lanes - count)
            for q, words in enumerate(transposed(square), first):
                if q >= start:
                    yield q, words

    def _prefetch(self, right: PairedMatrix, p: Index, count: int) -> None:
        """Prefetch the lines of a group for the next vector of columns, if the operand is in memory."""
        if isinstance(right.source, Matrix):
            for c in range(count):
                self.f.prefetch(right.source.moved(p * 2, c + self.vector.lanes).at, 0, 2)

    def _left(self, row: int, half: int) -> Value:
        return self.left + (2 * row + half) * self.k

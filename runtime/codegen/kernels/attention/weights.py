"""The weights of a block of queries: masked scores and their softmax, several rows at a time.

Parallel rows hide the latency of one row. The kernel stores exp(score - maximum), a power for each key, and the factor
1 / sum(powers) for each query. Readers of the powers multiply their results by the factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

from runtime.codegen import math
from runtime.codegen.ir import DTYPES, Function, Index, Value
from runtime.codegen.ir.halves import narrowed
from runtime.codegen.ir.types import BFLOAT16
from runtime.codegen.ir.words import across, convert, maximum, minimum, where
from runtime.codegen.kernels.attention.heads import Block, Heads
from runtime.codegen.kernels.attention.products import Products, computed
from runtime.codegen.kernels.attention.rows import AheadRows
from runtime.codegen.kernels.indices import index_dtype
from runtime.codegen.kernels.matmul import Matrix
from runtime.codegen.kernels.nest import offset_of
from runtime.codegen.kernels.reduction import SUM, by_halves
from runtime.codegen.kernels.registers import in_register
from runtime.codegen.kernels.steps import KernelContext

LOWEST_FINITE: Final = {32: -3.4028234663852886e38, 64: -1.7976931348623157e308}
"""The lower bound on the maximum of a row, so that all powers of a row that sees no key are 0."""

SMALLEST_NORMAL: Final = {32: 1.1754943508222875e-38, 64: 2.2250738585072014e-308}
"""The lower bound on the sum of powers, so that a query that sees no key has weights of 0 and not NaN."""

ROWS_TOGETHER: Final = 4
"""Number of rows that are computed in parallel."""


def write_weights(
    context: KernelContext,
    products: Products,
    block: Block,
    q: Matrix,
    panels: Value,
    mask: Value | None,
    seen: Index,
    to: Value,
    line: Value,
    ahead: Sequence[AheadRows] = (),
    *,
    rounds: bool = False,
) -> None:
    """Write the powers of a block and the factors of its queries; `q` begins at its first query.

    Meanwhile, rows of the next head are prefetched: the rows of `ahead` with the numbers of the queries. `rounds` is
    that of `Softmax`.
    """
    f, heads = context.f, products.heads
    products.by_keys(f, block.rows, q, panels, heads.depth, seen, to, scale=heads.scale, beyond=-inf)
    columns = computed(heads, seen, heads.wide)
    Softmax(context, heads, block, mask, columns, rounds=rounds).all_rows(to, line, ahead)


def in_order(heads: Heads, sums: Sequence[Value]) -> list[Value]:
    """Return the sums of rows from vectors of sums in lanes, in the order of one vector of `Heads.sum_lanes`."""
    vectors = (sums[i : i + heads.nominal_vectors] for i in range(0, len(sums), heads.nominal_vectors))
    return [across(by_halves(parts, SUM), SUM.combine) for parts in vectors]


def sums_of_products(
    f: Function, heads: Heads, left: Value, right: Value, indices: Sequence[Index], columns: Index
) -> list[Value]:
    """Return the sums of products of the elements of rows, in lanes: for each row, the vectors of a nominal vector.

    Args:
        f: the function under construction.
        heads: the sizes.
        left: address of weights.
        right: address of their gradients.
        indices: offsets of the rows in both.
        columns: number of elements of a row.
    """
    lanes, vectors = heads.lanes, heads.nominal_vectors
    nothing = [f.constant(heads.element.of(lanes), 0)] * (len(indices) * vectors)
    sums = f.loop(0, columns, heads.sum_lanes, nothing)
    for j, totals in sums:
        places = [at + j + v * lanes for at in indices for v in range(vectors)]
        products = [(f.load(left, at, lanes), f.load(right, at, lanes)) for at in places]
        sums.carry([f.fma(x, dx, total) for (x, dx), total in zip(products, totals, strict=True)])
    return sums.results


class Softmax:
    """The softmax of the rows of a block: scores become powers, and factors are written.

    Attributes:
        rounds: True if powers are rounded to bfloat16 and written to the first half of their row.
    """

    def __init__(
        self,
        context: KernelContext,
        heads: Heads,
        block: Block,
        mask: Value | None,
        columns: Index,
        *,
        rounds: bool = False,
    ) -> None:
        self.rounds = rounds
        self.f, self.heads, self.block, self.mask, self.columns = context.f, heads, block, mask, columns
        self.vector, self.bits = heads.element.of(heads.lanes), heads.element.bits

    def all_rows(self, weights: Value, line: Value, ahead: Sequence[AheadRows] = ()) -> None:
        """Turn the scores of all rows into powers, and prefetch the rows of `ahead` that have their numbers."""
        whole = self.block.rows // ROWS_TOGETHER * ROWS_TOGETHER
        for i in self.f.range(0, whole, ROWS_TOGETHER):
            for rows in ahead:
                rows.prefetch(self.f.index(self.block.first) + i, ROWS_TOGETHER)
            self.rows(weights, line, i, ROWS_TOGETHER)
        if rest := self.block.rows % ROWS_TOGETHER:
            self.rows(weights, line, whole, rest)

    def rows(self, weights: Value, line: Value, first: Index, count: int) -> None:
        """Turn `count` rows of scores into powers."""
        f, heads, numbers = self.f, self.heads, range(count)
        rows = [weights + (first + i) * heads.row for i in numbers]
        largest = f.loop(0, self.columns, heads.lanes, [f.constant(self.vector, LOWEST_FINITE[self.bits])] * count)
        for j, most in largest:
            scores = [self._seen(f.load(row, j, heads.lanes), first + i, j) for i, row in enumerate(rows)]
            if self.mask is not None:
                for x, row in zip(scores, rows, strict=True):
                    f.store(x, row, j)
            largest.carry([_larger(x, m) for x, m in zip(scores, most, strict=True)])
        most = [f.splat(across(x, _larger), heads.lanes) for x in largest.results]
        sums = f.loop(0, self.columns, heads.sum_lanes, [f.constant(self.vector, 0)] * (count * heads.nominal_vectors))
        for j, totals in sums:
            indices = [(i, j + v * heads.lanes) for i in numbers for v in range(heads.nominal_vectors)]
            powers = [self._power(f.load(rows[i], at, heads.lanes), most[i], first + i, at) for i, at in indices]
            for (i, at), x in zip(indices, powers, strict=True):
                if self.rounds:
                    f.store(narrowed(x, BFLOAT16), f.cast(rows[i], BFLOAT16), at)
                else:
                    f.store(x, rows[i], at)
            sums.carry([x + total for x, total in zip(powers, totals, strict=True)])
        for i, total in enumerate(in_order(heads, sums.results)):
            f.store(1 / maximum(total, SMALLEST_NORMAL[self.bits]), line, first + i)

    def _power(self, x: Value, most: Value, i: Index, j: Index) -> Value:
        scores = x if self.mask is not None else self._seen(x, i, j)
        return math.exp_below(scores - most)

    def _seen(self, x: Value, i: Index, j: Index) -> Value:
        """Return scores that are less than all others where a mask hides a key."""
        f, lanes, query = self.f, self.heads.lanes, self.f.index(self.block.first) + i
        if self.heads.causal:
            index = DTYPES[index_dtype(max(self.heads.queries, self.heads.keys))]
            is_before = f.counting(index.of(lanes)) <= convert(query - j, index)
            x = where(is_before, x, -inf)
        if self.mask is None or self.heads.mask is None:
            return x
        dtype, steps = self.heads.mask
        at = self.mask + offset_of([self.block.image, self.block.head, query, j], steps)
        if not steps[-1]:
            seen = f.splat(f.load(at), lanes)
        elif self.heads.keys % self.heads.sum_lanes == 0:
            seen = f.load(at, 0, lanes)
        else:
            seen = f.load(at, 0, lanes, self._count(j))
        return where(in_register(seen, dtype), x, -inf) if dtype == "bool" else x + seen

    def _count(self, j: Index) -> Index:
        """Return the number of keys in the vector that begins at key `j`: all lanes but in the last vector."""
        left = self.heads.keys - self.f.index(j)
        return minimum(left, self.heads.lanes)


def _larger(x: Value, y: Value) -> Value:
    """Return the larger number; the result is arbitrary for NaN, whose power is NaN anyway."""
    return where(x > y, x, y)

"""Weights of a block of queries: scores, what masks hide of them, and their softmax."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final

from runtime.engines.native import math
from runtime.engines.native.attention.heads import Heads
from runtime.engines.native.attention.products import LINE, WEIGHTS, Sizes, multiply
from runtime.engines.native.emission.nest import moved
from runtime.engines.native.forms.registers import in_register
from runtime.engines.native.forms.stages import Work
from runtime.engines.native.ir import INT32, Index, Value
from runtime.engines.native.ir.words import across, convert, first, maximum, where
from runtime.engines.native.product import Matrix
from runtime.engines.native.reduction import LARGEST, SUM, Joining, by_pairs, in_lanes

LEAST: Final = {32: -3.4028234663852886e38, 64: -1.7976931348623157e308}
"""From here on is what is largest of a row: of one that sees nothing, all powers are then 0."""

TINY: Final = {32: 1.1754943508222875e-38, 64: 2.2250738585072014e-308}
"""The least sum of powers: a query that sees no key has weights of 0."""

NORMAL: Final = {32: -87.0, 64: -708.0}
"""Below this, powers of e are not normal numbers."""

IN_REGISTERS: Final = 4
"""A row whose vectors are at most this part of the registers stays in them."""


@dataclass(frozen=True)
class Block:
    """Some queries of a head.

    Attributes:
        image, head: which.
        first: the first query.
        rows: how many.
    """

    image: Value
    head: Value
    first: Index
    rows: int


def scores(heads: Heads, rows: int) -> Sizes:
    """The product of queries and keys."""
    return Sizes(rows, heads.keys, heads.depth, (heads.depth, 1), (1, heads.depth))


def write_weights(work: Work, heads: Heads, block: Block, q: Value, k: Value, mask: Value | None, whole: bool) -> None:
    """The weights of a block, given the addresses of its first query and of the first key.

    If they are not to be `whole`, they are powers, and the factor of each query's is in its line.
    """
    f, weights, line = work.f, work.own(WEIGHTS, heads.element), work.own(LINE, heads.element)

    def scaled(x: Value, i: Index, j: Index, count: int) -> None:
        f.store(x * heads.scale, weights + (i * heads.row + j), 0, count)

    sizes = scores(heads, block.rows)
    multiply(work, heads, sizes, Matrix(q, heads.depth), Matrix(k, 1, heads.depth), scaled)
    softmax = _Softmax(work, heads, block, mask)
    for i in f.range(0, block.rows):
        factor = softmax.row(weights + i * heads.row, i, whole)
        f.store(factor, line, i)


class _Softmax:
    def __init__(self, work: Work, heads: Heads, block: Block, mask: Value | None) -> None:
        self.f, self.heads, self.block, self.mask = work.f, heads, block, mask
        self.vector = heads.element.of(heads.lanes)

    def row(self, row: Value, i: Index, whole: bool) -> Value:
        """A row of scores becomes powers, or weights; gives what makes weights of powers."""
        heads, bits = self.heads, self.heads.element.bits
        steps = _Row(row, heads)
        most = steps.over(
            lambda x, j, count: self._seen(x, i, j, count), LARGEST, heads.causal or self.mask is not None
        )
        most = self.f.splat(maximum(most, LEAST[bits]), heads.lanes)
        total = steps.over(lambda x, j, count: _power(x - most), SUM, True)
        factor = 1 / maximum(total, TINY[bits])
        if whole:
            wide = self.f.splat(factor, heads.lanes)
            steps.over(lambda x, j, count: x * wide, None, True)
        steps.end()
        return factor

    def _seen(self, x: Value, i: Index, j: Index, count: int) -> Value:
        """Scores, less than all others where a mask hides a key."""
        f, query = self.f, self.f.index(self.block.first) + i
        if self.heads.causal:
            is_before = f.counting(INT32.of(self.heads.lanes)) <= convert(query - j, INT32)
            x = where(is_before, x, -inf)
        if self.mask is None or self.heads.mask is None:
            return x
        dtype, steps = self.heads.mask
        at = self.mask + moved([self.block.image, self.block.head, query, j], steps)
        seen = f.load(at, 0, self.heads.lanes, count) if steps[-1] else f.splat(f.load(at), self.heads.lanes)
        return where(in_register(seen, dtype), x, -inf) if dtype == "bool" else x + seen


def _power(far: Value) -> Value:
    """The power of a distance below the largest; 0 where it has no normal number, as making others takes long."""
    least = NORMAL[far.type.bits]
    return where(far < least, 0.0, math.exp(maximum(far, least)))


class _Row:
    """A row that is gone over again and again, in registers if it is short."""

    def __init__(self, row: Value, heads: Heads) -> None:
        self.row, self.heads, self.f = row, heads, row.function
        lanes, keys = heads.lanes, heads.keys
        self.pieces = [(j, min(lanes, keys - j)) for j in range(0, keys, lanes)]
        self.held: list[Value] | None = None
        if len(self.pieces) <= heads.target.registers // IN_REGISTERS:
            self.held = [self.f.load(row, j, lanes, count) for j, count in self.pieces]

    def over(self, each: Callable[[Value, Index, int], Value], joining: Joining | None, changes: bool) -> Value:
        """What each vector becomes, and that joined, alone."""
        zero = self.f.constant(self.heads.element, 0)
        if self.held is not None:
            self.held = [each(x, j, count) for x, (j, count) in zip(self.held, self.pieces, strict=True)]
            return (
                zero if joining is None else across(by_pairs(self._filled(self.held, joining), joining), joining.join)
            )

        def read(j: Index, tail: int | None) -> list[Value]:
            count = self.heads.lanes if tail is None else tail
            x = each(self.f.load(self.row, j, self.heads.lanes, count), j, count)
            if changes:
                self.f.store(x, self.row, j, count)
            return [x]

        vector = self.heads.element.of(self.heads.lanes)
        used = joining or SUM
        [total] = in_lanes(self.f, self.heads.keys, read, [used], [vector])
        return zero if joining is None else across(total, joining.join)

    def end(self) -> None:
        """Write what was held."""
        for x, (j, count) in zip(self.held or [], self.pieces, strict=self.held is not None):
            self.f.store(x, self.row, j, count)

    def _filled(self, xs: list[Value], joining: Joining) -> list[Value]:
        *whole, last = xs
        count = self.pieces[-1][1]
        if count < self.heads.lanes:
            last = where(first(last, count), last, joining.neutral(last.type))
        return [*whole, last]

"""Tiles of products of pairs of bfloat16 by vector instructions, in the order of AMX.

A group is 16 pairs of the depth, counted from the start of its innermost loop. The first elements of its pairs are one
chain of multiply-adds that starts at 0, the second ones another. Both are added, then their sum is added to the tile.
The tile and the first chain are in memory meanwhile, so that a chain has all registers.

Each chain reads the words again and widens one half of them, or, with the instruction for pairs, takes two words and
combines their halves: `vdpbf16ps` adds the upper elements of its words first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from runtime.codegen.ir import FLOAT32, UINT64, Function, Index, Type, Value
from runtime.codegen.ir.words import bits, shuffle
from runtime.codegen.kernels.pair_products import (
    GROUP_PAIRS,
    UINT16,
    WORD,
    added_by_instruction,
    added_without_mode,
    chained,
    flushed,
    sum_without_mode,
    widened_half,
)

if TYPE_CHECKING:
    from runtime.codegen.kernels.tiles import DepthLoop, PanelVector, Prefetch

UNROLLED_PAIRS: Final = 4
"""Pairs of a group that are written out in the body of its loop."""

FIRST: Final = 0
SECOND: Final = 1
"""The elements of a pair."""


def tile_of_pairs(
    f: Function,
    left: Value,
    rows: Sequence[int],
    right: Value,
    vectors: Sequence[PanelVector],
    vector: Type,
    depth: Sequence[DepthLoop],
    asks: Sequence[Prefetch],
    sums: Sequence[Value],
) -> list[Value]:
    """Return the sums of products of a tile; the arguments are those of `tiles.tile`."""
    chains = _Chains(f, rows, vectors, vector, left, right, depth, asks)
    return flushed(f, list(sums), chains.added, replace(chains, asks=(), without_mode=True).added)


@dataclass(frozen=True)
class _Chains:
    """The chains of a tile.

    Attributes:
        f: the function that the tile is written into.
        rows: offsets of the rows of the left operand.
        vectors: vectors of a row of the right operand.
        vector: their type.
        left, right: addresses of the operands.
        depth: loops of the depth, the innermost last.
        asks: prefetches along the innermost loop.
        without_mode: True if no mode of the processor counts denormal numbers as 0.
    """

    f: Function
    rows: Sequence[int]
    vectors: Sequence[PanelVector]
    vector: Type
    left: Value
    right: Value
    depth: Sequence[DepthLoop]
    asks: Sequence[Prefetch]
    without_mode: bool = False

    def added(self, sums: list[Value], zero: Value) -> list[Value]:
        """Return these sums and the products of the depth; `zero` is a vector of zeros, at which chains start."""
        lanes = self.vector.lanes
        for i, x in enumerate(sums):
            self.f.store(x, self._buffer("tile_sums"), i * lanes)
        self._nested(zero, self.left, self.right, self.depth)
        return [self.f.load(self._buffer("tile_sums"), i * lanes, lanes) for i in range(len(sums))]

    def _buffer(self, name: str) -> Value:
        """Return memory for a vector of each sum."""
        size = len(self.rows) * len(self.vectors) * self.vector.lanes
        return self.f.buffer(f"{name}_{size}", FLOAT32, size)

    def _nested(self, zero: Value, left: Value, right: Value, depth: Sequence[DepthLoop]) -> None:
        along, *inner = depth
        if inner:
            for i in self.f.range(0, along.iterations):
                self._nested(zero, left + i * along.left, right + i * along.right, inner)
            return
        count = along.iterations
        whole = count // GROUP_PAIRS * GROUP_PAIRS if isinstance(count, int) else count & -GROUP_PAIRS
        for i in self.f.range(0, whole, GROUP_PAIRS):
            self._group(_Group(zero, left + i * along.left, right + i * along.right, along, i, GROUP_PAIRS))
        rest = count - whole
        group = _Group(zero, left + whole * along.left, right + whole * along.right, along, whole, rest)
        if isinstance(rest, Value):
            with self.f.when(rest.not_equal(0)):
                self._group(group)
        elif rest:
            self._group(group)

    def _group(self, group: _Group) -> None:
        """Add the products of a group to the sums in memory."""
        f, lanes, sums, before = self.f, self.vector.lanes, self._buffer("tile_sums"), self._buffer("tile_chains")
        for i, x in enumerate(self._chain(group, FIRST)):
            f.store(x, before, i * lanes)
        plus = sum_without_mode if self.without_mode else Value.__add__
        for i, x in enumerate(self._chain(group, SECOND)):
            both = plus(x, f.load(before, i * lanes, lanes))
            f.store(plus(f.load(sums, i * lanes, lanes), both), sums, i * lanes)

    def _chain(self, group: _Group, half: int) -> list[Value]:
        """Return the chain of one half of the pairs of a group."""
        sums, start, count = [group.zero] * (len(self.rows) * len(self.vectors)), 0, group.count
        for each in (UNROLLED_PAIRS, 2, 1):
            if not isinstance(count, int) and each > 1:
                continue
            stop = count // each * each if isinstance(count, int) else count
            loop = self.f.loop(start, stop, each, sums)
            for i, carried in loop:
                if each == UNROLLED_PAIRS and half == FIRST:
                    for ask in self.asks:
                        ask(group.first + i)
                loop.carry(self._steps(group, half, carried, i, each))
            sums, start = loop.results, stop
        is_padded = count != GROUP_PAIRS and not (isinstance(group.first, int) and group.first == 0)
        return [x + group.zero for x in sums] if is_padded else sums

    def _steps(self, group: _Group, half: int, sums: list[Value], i: Index, count: int) -> list[Value]:
        """Return the sums after `count` pairs from pair i on."""
        along = group.along
        left, right = group.left + i * along.left, group.right + i * along.right
        if self.f.target.has_pair_products and count % 2 == 0:
            for u in range(0, count, 2):
                sums = self._double_step(sums, half, left + u * along.left, right + u * along.right, along)
            return sums
        for u in range(count):
            sums = self._step(sums, half, left + u * along.left, right + u * along.right)
        return sums

    def _step(self, sums: list[Value], half: int, left: Value, right: Value) -> list[Value]:
        """Return the sums after a multiply-add of one half of a pair."""
        add = added_without_mode if self.without_mode else self.f.fma
        line = [widened_half(y, half) for y in self._line(right)]
        out: list[Value] = []
        for row in self.rows:
            x = widened_half(self.f.splat(self.f.load(left, row), self.vector.lanes), half)
            out += [add(x, y, s) for y, s in zip(line, sums[len(out) : len(out) + len(line)], strict=True)]
        return out

    def _double_step(self, sums: list[Value], half: int, left: Value, right: Value, along: DepthLoop) -> list[Value]:
        """Return the sums after one half of two pairs, by the instruction for pairs."""
        line = [chained(*ys, half) for ys in zip(self._line(right), self._line(right + along.right), strict=True)]
        out: list[Value] = []
        for row in self.rows:
            x = self._two_words(left + row, along.left, half)
            both = zip(line, sums[len(out) : len(out) + len(line)], strict=True)
            out += [added_by_instruction(x, y, s) for y, s in both]
        return out

    def _two_words(self, at: Value, onward: Index, half: int) -> Value:
        """Return one half of two words of a row, in all lanes."""
        f, lanes = self.f, self.vector.lanes
        if not isinstance(onward, int) or onward != 1:
            return chained(f.splat(f.load(at), lanes), f.splat(f.load(at, onward), lanes), half)
        elements = bits(f.splat(f.load(f.cast(at, UINT64)), lanes // 2), UINT16)
        return bits(shuffle(elements, elements, [half + 2, half] * lanes), WORD)

    def _line(self, right: Value) -> list[Value]:
        return [self.f.load(right, each.first, self.vector.lanes, each.tail) for each in self.vectors]


class _Group(NamedTuple):
    """A group of the depth.

    Attributes:
        zero: a vector of zeros, at which chains start.
        left, right: addresses of its first pair.
        along: the innermost loop of the depth.
        first: the number of its first pair in that loop.
        count: number of its pairs; one with fewer than `GROUP_PAIRS` behind others ends with zeros.
    """

    zero: Value
    left: Value
    right: Value
    along: DepthLoop
    first: Index
    count: Index

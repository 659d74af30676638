"""Tiles of products of pairs of bfloat16 by vector instructions, in the order of AMX.

A group is 16 pairs of the depth, counted from the start of its innermost loop. The first elements of its pairs are one
chain of multiply-adds that starts at 0, the second ones another. Both are added, then their sum is added to the tile.
The tile and the first chain are in memory meanwhile, so that a chain has all registers.

Products of matrices and most convolutions prepare operands where they copy or transform them. Without the instruction
for pairs, elements are widened: a pair is then two neighbours of float32. Both chains of some rows are in registers at
a time, if these are enough. The instruction adds the upper elements of its words first, then the lower ones, so a word
holds two elements of a chain. Words of prepared operands are combined that way: 8 words of the first chain of a whole
group, and behind them 8 of the second one. Both chains of some rows are then in registers at a time, and their sums as
well during a run of groups, if the depth is a constant.

Other kernels have plain words. The left operand of a group is copied first, as the elements of each chain in float32,
or as combined words. The right one is read again for each chain, and its words are widened or combined in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

from runtime.codegen.costs import chained_step_cycles
from runtime.codegen.ir import FLOAT32, Function, Index, Type, Value
from runtime.codegen.ir.words import bits, shuffle
from runtime.codegen.kernels.depth import DepthLoop, PairForm, PanelVector, Prefetch, Tile
from runtime.codegen.kernels.pair_products import (
    GROUP_PAIRS,
    UINT16,
    WORD,
    added_by_instruction,
    added_without_mode,
    chained,
    flushed,
    products_added,
    rounded,
    rounded_wide,
    sum_without_mode,
    widened_half,
)
from runtime.codegen.kernels.split import least_of
from runtime.codegen.machine import Target

MAX_CHAINED_SUMS: Final = 9
"""Upper bound on the vectors of a tile whose two chains and sums are in registers together, beside operands."""

MAX_CHAINED_ROWS: Final = {1: 9, 2: 12, 3: 9, 4: 6}
"""Rows of a tile of combined words by its vectors: one or three parts of `MAX_CHAINED_SUMS` sums at most."""

MAX_RUN_PAIRS: Final = 4 * GROUP_PAIRS
"""Upper bound on a run of groups, whose vectors of the right operand stay in the nearest cache for all rows."""

MAX_WIDENED_SUMS: Final = {16: 6, 32: 12}
"""Upper bound on the vectors of a tile of widened elements whose two chains are in registers, by their number."""

MIN_WIDENED_SUMS: Final = 5
"""Least number of them: fewer chains wait for their own results."""

UNROLLED_PAIRS: Final = 4
"""Pairs of a group that are written out in the body of its loop."""

LOWER: Final = 0
UPPER: Final = 1
"""The elements of a pair."""

_CHAINED: Final = tuple([half + 4 * i + k for i in range(GROUP_PAIRS // 2) for k in (2, 0)] for half in (LOWER, UPPER))
"""For each chain of a group, the elements of its words: the earlier one is the upper."""

CHAINED_ELEMENTS: Final = (*_CHAINED[LOWER], *_CHAINED[UPPER])
"""Elements of a whole group in the order of combined words."""

Add = Callable[[Value, Value, Value], Value]
"""From a vector of each operand and a sum to the sum after their products."""


def tile_of_pairs(tile: Tile, sums: Sequence[Value], pairs: PairForm) -> list[Value]:
    """Return the sums of products of a tile."""
    chains, slow = _Chains(tile, pairs), _Chains(tile._replace(asks=()), pairs, without_mode=True)
    return flushed(tile.f, list(sums), chains.added, slow.added)


def chain_rows(f: Function, at: Value, rows: int, row: int, pairs: Index, *, chains_rest: bool = False) -> None:
    """Combine words of whole groups to neighbours of a chain, in rows of words that are `row` apart.

    With `chains_rest`, those of the pairs behind whole groups too, whose number is a constant.
    """
    for i in f.range(0, rows):
        for p in f.range(0, whole_groups(pairs), GROUP_PAIRS):
            place = i * row + p
            elements = bits(f.load(at, place, GROUP_PAIRS), UINT16)
            f.store(bits(shuffle(elements, elements, CHAINED_ELEMENTS), WORD), at, place)
        if rest := _rest(pairs, chains_rest=chains_rest):
            place, words = i * row + (pairs - rest), rest // 2
            chained_rest = [x for half in (LOWER, UPPER) for x in _CHAINED[half][: 2 * words]]
            chained_rest += range(4 * words, 2 * GROUP_PAIRS)
            elements = bits(f.load(at, place, GROUP_PAIRS, rest), UINT16)
            f.store(bits(shuffle(elements, elements, chained_rest), WORD), at, place, rest)


def chain_columns(
    f: Function, at: Value, columns: int, row: int, pairs: Index, vector: Type, *, chains_rest: bool = False
) -> None:
    """Combine words to neighbours of a chain as `chain_rows` does, down columns; rows are `row` apart.

    Whole vectors are read and written, so rows have room for them.
    """
    if rest := _rest(pairs, chains_rest=chains_rest):
        _chain_group(f, at + (pairs - rest) * row, columns, row, rest, vector)
    for p in f.range(0, whole_groups(pairs), GROUP_PAIRS):
        _chain_group(f, at + p * row, columns, row, GROUP_PAIRS, vector)


def _chain_group(f: Function, at: Value, columns: int, row: int, pairs: int, vector: Type) -> None:
    """Combine words of a group down columns; the last one of an odd number of pairs stays as it is."""
    for j in f.range(0, columns, vector.lanes):
        words = [f.load(at, i * row + j, vector.lanes) for i in range(pairs // 2 * 2)]
        for half in (LOWER, UPPER):
            for i in range(pairs // 2):
                f.store(chained(words[2 * i], words[2 * i + 1], half), at, (half * (pairs // 2) + i) * row + j)


def _rest(pairs: Index, *, chains_rest: bool) -> int:
    """Return the number of pairs behind whole groups whose words are combined."""
    assert not chains_rest or isinstance(pairs, int), "the number of pairs is a constant"
    return pairs % GROUP_PAIRS if chains_rest and isinstance(pairs, int) else 0


def elements_of_word(word: Index) -> tuple[Index, Index]:
    """Return the numbers of the two elements of a combined word of whole groups, the earlier one first."""
    half = GROUP_PAIRS // 2
    if isinstance(word, int):
        first = word // GROUP_PAIRS * 2 * GROUP_PAIRS + word % half * 4 + word % GROUP_PAIRS // half
    else:
        first = (word & -GROUP_PAIRS) * 2 + (word & half - 1) * 4 + ((word & half) >> half.bit_length() - 1)
    return first, first + 2


def elements_of_pair(target: Target) -> int:
    """Return the elements of 32 bits of a pair in a prepared operand: two of float32, or one word."""
    return 2 if target.widens_pairs else 1


def chained_tiles(lanes: int, m: int, n: int) -> dict[tuple[int, int], float]:
    """Return the cycles for each step of the depth, by rows and vectors of tiles of combined words."""
    costs: dict[tuple[int, int], float] = {}
    for vectors, most in MAX_CHAINED_ROWS.items():
        tiles = -(-m // most)
        rows = -(-m // tiles)
        costs[rows, vectors] = tiles * -(-n // (vectors * lanes)) * chained_step_cycles(rows, vectors)
    return costs


def pair_of_row(row: Value) -> tuple[Value, Value]:
    """Return the earlier of the two pairs of which a row of combined words has the elements, and which element."""
    half = GROUP_PAIRS // 2
    return (row & -GROUP_PAIRS) + (row & half - 1) * 2, (row & half) >> half.bit_length() - 1


def row_of_pair(pair: Value, element: int) -> Value:
    """Return the row of combined words with an element of this pair, which has an even number, and of the next one."""
    return (pair & -GROUP_PAIRS) + ((pair & GROUP_PAIRS - 1) >> 1) + element * (GROUP_PAIRS // 2)


def vectors_of_depth(f: Function, elements: int, lanes: int) -> Iterator[tuple[Index, int, bool]]:
    """Yield vectors of neighbours of the depth: first element, lanes that count, and whether their words are combined.

    Words of whole groups are, and a vector has half of the elements of one, if the target has the instruction.
    """
    whole = elements // (2 * GROUP_PAIRS) * (2 * GROUP_PAIRS) if f.target.chains_pairs else 0
    full = elements // lanes * lanes
    for start, stop, is_combined in ((0, whole, True), (whole, full, False)):
        for c in f.range(start, stop, lanes):
            yield c, lanes, is_combined
    if tail := elements - full:
        yield full, tail, False


def store_depth(x: Value, at: Value, first: Index, tail: int, is_combined: bool) -> None:
    """Round a vector of `vectors_of_depth` and store it behind the address of a prepared operand, of its elements."""
    f = x.function
    if f.target.widens_pairs:
        f.store(rounded_wide(x), at, first, tail)
        return
    y = rounded(x)
    if not is_combined:
        f.store(y, at, first, tail)
        return
    place = (first & -2 * GROUP_PAIRS) + ((first & GROUP_PAIRS) >> 1)
    for half in (LOWER, UPPER):
        chain = shuffle(y, y, [half + 4 * i + k for i in range(GROUP_PAIRS // 4) for k in (2, 0)])
        f.store(chain, at, place + half * GROUP_PAIRS)


def whole_groups(pairs: Index) -> Index:
    """Return the number of pairs in whole groups."""
    return pairs // GROUP_PAIRS * GROUP_PAIRS if isinstance(pairs, int) else pairs & -GROUP_PAIRS


class _Place(NamedTuple):
    """A place in the depth.

    Attributes:
        zero: a vector of zeros, at which chains start.
        left, right: addresses of both operands.
        along: the loop of the depth that begins here, or that this place is in.
    """

    zero: Value
    left: Value
    right: Value
    along: DepthLoop

    def at(self, i: Index) -> tuple[Value, Value]:
        """Return the addresses of both operands `i` iterations further on."""
        return self.left + i * self.along.left, self.right + i * self.along.right

    def moved(self, i: Index) -> _Place:
        """Return the place `i` iterations further on."""
        left, right = self.at(i)
        return self._replace(left=left, right=right)


class _Group(NamedTuple):
    """A group of the depth.

    Attributes:
        place: its first pair, and the innermost loop of the depth.
        first: the number of its first pair in that loop.
        pairs: number of its pairs.
        doubles: number of words of a chain that hold two elements; its other elements are float32.
    """

    place: _Place
    first: Index
    pairs: Index
    doubles: int

    @property
    def is_padded(self) -> bool:
        """True if the group ends with zeros: it is shorter than those before it."""
        is_only = isinstance(self.first, int) and self.first == 0
        return self.pairs != GROUP_PAIRS and not is_only


class _LeftCopy(NamedTuple):
    """The copy of the left operand of a group.

    Attributes:
        at: address of the first element of the first chain.
        rows: offsets of rows.
        step: stride of the elements, or words, of a chain.
        half: stride of chains.
        singles: where the elements of a chain in float32 would begin if no word held two.
    """

    at: Value
    rows: Sequence[int]
    step: int
    half: int
    singles: int


class _Chains(NamedTuple):
    """The chains of a tile.

    Attributes:
        tile: the operands.
        pairs: the form of its pairs.
        without_mode: True if no mode of the processor counts denormal numbers as 0.
    """

    tile: Tile
    pairs: PairForm
    without_mode: bool = False

    def added(self, sums: list[Value], zero: Value) -> list[Value]:
        """Return these sums and the products of the depth; `zero` is a vector of zeros, at which chains start."""
        lanes, (*outer, along), found = self.tile.vector.lanes, self.tile.depth, list[Value]()
        place = _Place(zero, self.tile.left, self.tile.right, self.tile.depth[0])
        if self.pairs.is_chained and not outer and self._is_one_run(along.iterations):
            for rows in self._chained_parts():
                before = sums[len(found) : len(found) + len(rows) * len(self.tile.vectors)]
                found += self._groups(before, place, 0, along.iterations, rows, not found)
            return found
        for i, x in enumerate(sums):
            self.tile.f.store(x, self._buffer("tile_sums"), i * lanes)
        self._nested(place, self.tile.depth[1:])
        return [self.tile.f.load(self._buffer("tile_sums"), i * lanes, lanes) for i in range(len(sums))]

    def _buffer(self, name: str) -> Value:
        """Return memory for a vector of each sum."""
        size = len(self.tile.rows) * len(self.tile.vectors) * self.tile.vector.lanes
        return self.tile.f.buffer(f"{name}_{size}", FLOAT32, size)

    def _nested(self, place: _Place, inner: Sequence[DepthLoop]) -> None:
        along = place.along
        if inner:
            for i in self.tile.f.range(0, along.iterations):
                self._nested(place.moved(i)._replace(along=inner[0]), inner[1:])
            return
        count, whole = along.iterations, whole_groups(along.iterations)
        self._whole_groups(place, whole)
        rest = count - whole
        if isinstance(rest, Value):
            with self.tile.f.when(rest.not_equal(0)):
                self._group(place, whole, rest)
        elif rest and self.pairs.chains_rest:
            assert isinstance(whole, int), "the depth is a constant"
            self._chained_rest(place.moved(whole), rest, whole > 0)
        elif rest:
            self._group(place, whole, rest)

    def _whole_groups(self, place: _Place, whole: Index) -> None:
        """Add the products of whole groups to the sums in memory."""
        if self.pairs.is_chained:
            if len(self._chained_parts()) == 1:
                self._chained_run(place, 0, whole)
                return
            for i in self.tile.f.range(0, whole, MAX_RUN_PAIRS):
                self._chained_run(place, i, least_of(i + MAX_RUN_PAIRS, whole))
            return
        parts = self._widened_parts()
        for i in self.tile.f.range(0, whole, GROUP_PAIRS):
            if parts:
                for pairs in range(0, GROUP_PAIRS, UNROLLED_PAIRS):
                    for ask in self.tile.asks:
                        ask(i + pairs)
                self._widened_group(place.moved(i), parts)
            else:
                self._group(place, i, GROUP_PAIRS)

    def _chained_rest(self, place: _Place, pairs: int, is_padded: bool) -> None:
        """Add the products of combined words of a short group to the sums in memory."""
        f, lanes, buffer, half, number = self.tile.f, self.tile.vector.lanes, self._buffer("tile_sums"), pairs // 2, 0
        zero = place.zero
        for rows in self._chained_parts():
            count = len(rows) * len(self.tile.vectors)
            loop = f.loop(0, half, 1, [zero] * (2 * count))
            for i, carried in loop:
                chains = list[Value]()
                for sums, word in ((carried[:count], i), (carried[count:], i + half)):
                    chains += self._added(sums, *place.at(word), rows, added_by_instruction)
                loop.carry(chains)
            chains = [loop.results[:count], loop.results[count:]]
            if pairs % 2:
                last = place.at(pairs - 1)
                ends = (partial(widened_half, half=half) for half in (LOWER, UPPER))
                chains = [self._added(sums, *last, rows, f.fma, of) for sums, of in zip(chains, ends, strict=True)]
            for x, y in zip(*chains, strict=True):
                both = (y + zero) + (x + zero) if is_padded else y + x
                f.store(f.load(buffer, number * lanes, lanes) + both, buffer, number * lanes)
                number += 1

    def _group(self, place: _Place, first: Index, count: Index) -> None:
        """Add the products of `count` pairs from pair `first` on to the sums in memory."""
        f, lanes, sums, before = (
            self.tile.f,
            self.tile.vector.lanes,
            self._buffer("tile_sums"),
            self._buffer("tile_chains"),
        )
        place = place.moved(first)
        has_instruction = f.target.has_pair_products and not self.pairs.is_widened
        doubles = count // 2 if has_instruction and isinstance(count, int) else 0
        group = _Group(place, first, count, doubles)
        copy = self._left(group)
        for i, x in enumerate(self._chain(group, copy, LOWER)):
            f.store(x, before, i * lanes)
        plus = sum_without_mode if self.without_mode else Value.__add__
        for i, x in enumerate(self._chain(group, copy, UPPER)):
            both = plus(x, f.load(before, i * lanes, lanes))
            f.store(plus(f.load(sums, i * lanes, lanes), both), sums, i * lanes)

    def _widened_parts(self) -> list[Sequence[int]]:
        """Return the rows whose two chains of widened elements are in registers together; none if that is slower."""
        most = MAX_WIDENED_SUMS[self.tile.f.target.registers] // len(self.tile.vectors)
        if not self.pairs.is_widened or self.without_mode or not most:
            return []
        parts = list(_parts(self.tile.rows, most))
        return parts if min(map(len, parts)) * len(self.tile.vectors) >= MIN_WIDENED_SUMS else []

    def _widened_group(self, place: _Place, parts: list[Sequence[int]]) -> None:
        """Add the products of a group of widened elements to the sums in memory, both chains of some rows at a time."""
        f, lanes, sums, number = self.tile.f, self.tile.vector.lanes, self._buffer("tile_sums"), 0
        along = place.along
        assert isinstance(along.left, int), "widened operands have constant strides"
        assert isinstance(along.right, int), "widened operands have constant strides"
        elements = place._replace(along=along._replace(left=along.left // 2, right=along.right // 2))
        for rows in parts:
            count = len(rows) * len(self.tile.vectors)
            loop = f.loop(0, 2 * GROUP_PAIRS, UNROLLED_PAIRS, [place.zero] * (2 * count))
            for i, carried in loop:
                chains = [carried[:count], carried[count:]]
                for element in range(UNROLLED_PAIRS):
                    chains[element % 2] = self._added(chains[element % 2], *elements.at(i + element), rows, f.fma)
                loop.carry(chains[0] + chains[1])
            for x, y in zip(loop.results[:count], loop.results[count:], strict=True):
                f.store(f.load(sums, number * lanes, lanes) + (y + x), sums, number * lanes)
                number += 1

    def _chained_run(self, place: _Place, first: Index, stop: Index) -> None:
        """Add the products of a run of groups of combined words to the sums in memory."""
        f, lanes, buffer, number = self.tile.f, self.tile.vector.lanes, self._buffer("tile_sums"), 0
        for rows in self._chained_parts():
            places = range(number, number + len(rows) * len(self.tile.vectors))
            sums = [f.load(buffer, i * lanes, lanes) for i in places]
            sums = self._groups(sums, place, first, stop, rows, not number)
            for i, x in zip(places, sums, strict=True):
                f.store(x, buffer, i * lanes)
            number += len(places)

    def _is_one_run(self, pairs: Index) -> bool:
        """Return True if a depth of these pairs is one run of whole groups."""
        if isinstance(pairs, Value) or pairs % GROUP_PAIRS:
            return False
        return pairs <= MAX_RUN_PAIRS or len(self._chained_parts()) == 1

    def _chained_parts(self) -> Sequence[Sequence[int]]:
        """Return the rows whose chains and sums are in registers together."""
        return list(_parts(self.tile.rows, max(MAX_CHAINED_SUMS // len(self.tile.vectors), 1)))

    def _groups(
        self, sums: list[Value], place: _Place, first: Index, stop: Index, rows: Sequence[int], is_first: bool
    ) -> list[Value]:
        """Return these sums of some rows after a run of groups; the first rows prefetch."""
        loop, asks = self.tile.f.loop(first, stop, GROUP_PAIRS, sums), self.tile.asks if is_first else ()
        for i, before in loop:
            added = self._both_chains(place.moved(i), i, rows, asks)
            loop.carry([x + y for x, y in zip(before, added, strict=True)])
        return loop.results

    def _both_chains(self, place: _Place, first: Index, rows: Sequence[int], asks: Sequence[Prefetch]) -> list[Value]:
        """Return the sums of both chains of a group of combined words, whose first pair is `first`, for some rows."""
        count, half = len(rows) * len(self.tile.vectors), GROUP_PAIRS // 2
        loop = self.tile.f.loop(0, half, UNROLLED_PAIRS // 2, [place.zero] * (2 * count))
        for i, carried in loop:
            for ask in asks:
                ask(first + i * 2)
            for u in range(UNROLLED_PAIRS // 2):
                chains = list[Value]()
                for sums, word in ((carried[:count], i + u), (carried[count:], i + (u + half))):
                    chains += self._added(sums, *place.at(word), rows, added_by_instruction)
                carried = chains
            loop.carry(carried)
        return [y + x for x, y in zip(loop.results[:count], loop.results[count:], strict=True)]

    def _added(
        self,
        sums: list[Value],
        left: Value,
        right: Value,
        rows: Sequence[int],
        add: Add,
        of: Callable[[Value], Value] | None = None,
    ) -> list[Value]:
        """Return the sums after a step of these rows; see `pair_products.products_added`."""
        return products_added(self.tile.f, sums, left, right, rows, self.tile.vectors, self.tile.vector.lanes, add, of)

    # The copy of the left operand.

    def _left(self, group: _Group) -> _LeftCopy:
        """Return the left operand as chains of float32: in place if it is, else a copy."""
        step = group.place.along.left
        if self.pairs.is_widened:
            assert isinstance(step, int), "widened operands have constant strides"
            return _LeftCopy(group.place.left, self.tile.rows, step, step // 2, 0)
        return self._copied_rows(group) if isinstance(step, int) and step == 1 else self._copied_steps(group)

    def _left_copy(self, row: int, step: int, singles: int) -> _LeftCopy:
        size = (len(self.tile.rows) + GROUP_PAIRS) * 2 * GROUP_PAIRS
        rows = [row * r for r in range(len(self.tile.rows))]
        return _LeftCopy(self.tile.f.buffer(f"tile_left_{size}", FLOAT32, 2 * size), rows, step, size, singles)

    def _copied_rows(self, group: _Group) -> _LeftCopy:
        """Copy rows whose pairs are contiguous: words of two elements of a chain, and behind them all its elements."""
        copy = self._left_copy(2 * GROUP_PAIRS, 1, GROUP_PAIRS if group.doubles else 0)
        for r, row in enumerate(self.tile.rows):
            words = self.tile.f.load(group.place.left, row, GROUP_PAIRS, group.pairs)
            elements = bits(words, UINT16)
            for half in (LOWER, UPPER):
                at = copy.rows[r] + half * copy.half
                if group.doubles:
                    self.tile.f.store(bits(shuffle(elements, elements, _CHAINED[half]), WORD), copy.at, at)
                if 2 * group.doubles != group.pairs:
                    self.tile.f.store(widened_half(words, half), copy.at, at + copy.singles)
        return copy

    def _copied_steps(self, group: _Group) -> _LeftCopy:
        """Copy pair by pair of the depth, all rows at a time if they are contiguous."""
        f, along, doubles, count = self.tile.f, group.place.along, group.doubles, len(self.tile.rows)
        is_line = (
            list(self.tile.rows) == [*range(self.tile.rows[0], self.tile.rows[0] + count)] and 1 < count <= GROUP_PAIRS
        )
        step = count + GROUP_PAIRS
        copy = self._left_copy(1, step, -doubles * step)

        def words(i: Index, row: int) -> Value:
            at = group.place.left + f.index(i) * along.left
            return f.load(at, row, GROUP_PAIRS, count) if is_line else f.load(at, row)

        for r, row in enumerate(self.tile.rows[:1] if is_line else self.tile.rows):
            for i in f.range(0, doubles):
                pair = words(f.index(i) * 2, row), words(f.index(i) * 2 + 1, row)
                for half in (LOWER, UPPER):
                    f.store(chained(*pair, half), copy.at + i * step, r + half * copy.half)
            for i in f.range(2 * doubles, group.pairs):
                for half in (LOWER, UPPER):
                    to = copy.at + (f.index(i) * step + copy.singles)
                    f.store(widened_half(words(i, row), half), to, r + half * copy.half)
        return copy

    # The chains.

    def _chain(self, group: _Group, copy: _LeftCopy, half: int) -> list[Value]:
        """Return the chain of one half of the pairs of a group."""
        chain = _Chain(self.tile.f, group, copy, half, self.tile.vectors, self.tile.vector.lanes, self.pairs.is_widened)
        add = added_without_mode if self.without_mode else self.tile.f.fma
        asks = self.tile.asks if half == LOWER else ()
        sums = [group.place.zero] * (len(self.tile.rows) * len(self.tile.vectors))
        sums = self._steps(sums, 0, group.doubles, UNROLLED_PAIRS // 2, chain.double_step, asks, group.first, 2)
        sums = self._steps(
            sums, 2 * group.doubles, group.pairs, UNROLLED_PAIRS, partial(chain.step, add), asks, group.first, 1
        )
        return [x + group.place.zero for x in sums] if group.is_padded else sums

    def _steps(
        self,
        sums: list[Value],
        start: int,
        stop: Index,
        unrolled: int,
        step: Callable[[list[Value], Value, int], list[Value]],
        asks: Sequence[Prefetch],
        first: Index,
        pairs: int,
    ) -> list[Value]:
        """Return the sums after the steps from `start` to `stop`, each of one or two `pairs`."""
        for each in (unrolled, 1):
            if each > 1 and not isinstance(stop, int):
                continue
            end = start + (stop - start) // each * each if isinstance(stop, int) else stop
            loop = self.tile.f.loop(start, end, each, sums)
            for i, carried in loop:
                for ask in asks if each > 1 else ():
                    ask(first + i * pairs)
                for u in range(each):
                    carried = step(carried, self.tile.f.index(i), u)
                loop.carry(carried)
            sums, start = loop.results, end if isinstance(end, int) else start
        return sums


def _parts(rows: Sequence[int], most: int) -> Iterator[Sequence[int]]:
    """Yield the rows in as few parts of at most `most` as there can be, as equal as possible."""
    count = -(-len(rows) // most)
    for first, end in pairwise(len(rows) * i // count for i in range(count + 1)):
        yield rows[first:end]


class _Chain(NamedTuple):
    """The steps of a chain of a group."""

    f: Function
    group: _Group
    copy: _LeftCopy
    half: int
    vectors: Sequence[PanelVector]
    lanes: int
    is_widened: bool

    def step(self, add: Add, sums: list[Value], i: Value, u: int) -> list[Value]:
        """Return the sums after the products of an element of the chain, `u` behind element i."""
        line = self._line(i, u)
        if not self.is_widened:
            line = [widened_half(y, self.half) for y in line]
        return self._added(sums, line, i, u, self.copy.singles, add)

    def double_step(self, sums: list[Value], i: Value, u: int) -> list[Value]:
        """Return the sums after the products of a word with two elements, `u` behind word i."""
        both = zip(self._line(i * 2, 2 * u), self._line(i * 2, 2 * u + 1), strict=True)
        line = [chained(*words, self.half) for words in both]
        return self._added(sums, line, i, u, 0, added_by_instruction)

    def _line(self, i: Value, u: int) -> list[Value]:
        """Return the vectors of a row of the right operand."""
        along = self.group.place.along.right
        right, begin = self.group.place.right + i * along + along * u, 0
        if self.is_widened:
            assert isinstance(along, int), "widened operands have constant strides"
            begin = self.half * along // 2
        return [self.f.load(right, begin + each.first, self.lanes, each.tail) for each in self.vectors]

    def _added(self, sums: list[Value], line: list[Value], i: Value, u: int, begin: int, add: Add) -> list[Value]:
        f, copy = self.f, self.copy
        left = copy.at + i * copy.step
        out: list[Value] = []
        for row in copy.rows:
            x = f.splat(f.load(left, row + u * copy.step + self.half * copy.half + begin), self.lanes)
            out += [add(x, y, s) for y, s in zip(line, sums[len(out) : len(out) + len(line)], strict=True)]
        return out

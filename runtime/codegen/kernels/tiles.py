"""The micro-kernel of products, convolutions, attention and recurrent layers: a tile of a result in registers.

A step of the depth loads the vectors of a row of the right operand once. For each row of the result it loads one
element of the left operand and broadcasts it to the lanes. Sums stay in registers until the depth ends. The rows of the
left operand begin at known distances from one address. They may therefore be rows of a matrix, pixels of an image, or
channels of several filter elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from runtime.codegen.ir import Function, Index, Value
from runtime.codegen.ir.words import minimum, where
from runtime.codegen.kernels import matrix_tiles, pair_chains
from runtime.codegen.kernels.depth import UNROLLED_DEPTH_STEPS, DepthLoop, PairForm, Prefetch, Tile
from runtime.codegen.kernels.integers.words import multiply_add, word_at
from runtime.codegen.kernels.pair_products import (
    added_by_instruction,
    added_without_mode,
    flushed,
    products_added,
    tied,
    widened_half,
)
from runtime.codegen.machine import CACHE_LINE_BYTES


def prefetching(f: Function, at: Value, each: int) -> Prefetch:
    """Return a function that prefetches `each` elements from `at` on for each step."""
    line = CACHE_LINE_BYTES * 8 // at.element.bits

    def ask(i: Index) -> None:
        for far in range(0, each * UNROLLED_DEPTH_STEPS, line):
            f.prefetch(at + i * each, far)

    return ask


def tile(operands: Tile, sums: list[Value] | None = None, *, pairs: PairForm | None = None) -> list[Value]:
    """Return the sums of products of a tile: the vectors of the first row, then those of the next rows.

    Args:
        operands: the tile.
        sums: values to which products are added; 0 unless given.
        pairs: the form of elements that are pairs of bfloat16, which are added in groups, or in order if the target
            adds pairs; see `kernels.pair_products`.
    """
    f, left, right, depth = operands.f, operands.left, operands.right, operands.depth
    sums = sums or [f.constant(operands.vector, 0)] * (len(operands.rows) * len(operands.vectors))
    if pairs is not None:
        if depth[-1].iterations == 0:
            return sums
        if f.target.adds_pairs:
            return _tile_of_ordered_pairs(operands, sums, is_widened=pairs.is_widened)
        if f.target.has_matrix_tiles:
            return matrix_tiles.tile_of_words(operands, sums)
        return pair_chains.tile_of_pairs(operands, sums, pairs)
    return _nested(_Step(operands), sums, left, right, depth)


def rows_of_tile(operands: Tile, *, pairs: PairForm | None = None) -> Iterator[list[Value]]:
    """Yield the sums of `tile` row by row; see `matrix_tiles.rows_of_words` for when those of AMX are loaded."""
    if pairs is not None and operands.depth[-1].iterations != 0 and operands.f.target.has_matrix_tiles:
        yield from matrix_tiles.rows_of_words(operands)
        return
    yield from lines(tile(operands, pairs=pairs), len(operands.rows))


def _tile_of_ordered_pairs(tile: Tile, sums: Sequence[Value], *, is_widened: bool) -> list[Value]:
    """Return the sums of a tile whose elements are one chain each."""
    step = _PairStep(tile, is_widened)
    slow = step._replace(tile=tile._replace(asks=()), without_mode=True)

    def added(each: _PairStep, before: list[Value]) -> list[Value]:
        return _nested(each, [tied(x) for x in before], tile.left, tile.right, tile.depth)

    return flushed(tile.f, list(sums), lambda before, _: added(step, before), lambda before, _: added(slow, before))


def prepared_tile(operands: Tile, *, of_pairs: bool) -> Iterator[list[Value]]:
    """Yield the sums of `rows_of_tile` for pairs in the form that the target prefers; the depth is one loop of rows.

    A pair has `pair_chains.elements_of_pair` rows, and the depth has the distances of rows.
    """
    if not of_pairs:
        return rows_of_tile(operands)
    target, [depth] = operands.f.target, operands.depth
    each = pair_chains.elements_of_pair(target)
    loops = [depth._replace(left=depth.left * each, right=depth.right * each)]
    return rows_of_tile(operands._replace(depth=loops), pairs=PairForm(target.widens_pairs, target.chains_pairs))


def store_rows(sums: Iterable[list[Value]], to: Value, row: Index) -> None:
    """Store the sums of a tile as whole vectors behind an address; rows are `row` elements apart."""
    for i, line in enumerate(sums):
        for v, x in enumerate(line):
            to.function.store(x, to, i * row + v * x.type.lanes)


def add_rows(sums: Iterable[list[Value]], to: Value, row: Index, columns: int, is_first: Value) -> None:
    """Store the sums of the first part of a depth, or add those of a later part to what is there."""
    f = to.function
    found = [
        (i * row + v * x.type.lanes, x.type.lanes, min(x.type.lanes, columns - v * x.type.lanes), x)
        for i, line in enumerate(sums)
        for v, x in enumerate(line)
    ]
    with f.when(is_first):
        for at, _, tail, x in found:
            f.store(x, to, at, tail)
    with f.when(~is_first):
        for at, lanes, tail, x in found:
            f.store(f.load(to, at, lanes, tail) + x, to, at, tail)


def lines(sums: Sequence[Value], count: int) -> list[list[Value]]:
    """Return the sums of a tile by row; the tile has `count` rows."""
    across = len(sums) // count
    return [list(sums[i * across : (i + 1) * across]) for i in range(count)]


class _Step(NamedTuple):
    """A step of the depth: the vectors of a row of the right operand times an element of each row of the left one."""

    tile: Tile

    def added(self, sums: list[Value], left: Value, right: Value, along: DepthLoop, u: int) -> list[Value]:
        """Return the sums after step `u` behind these addresses."""
        f, rows, lanes = self.tile.f, self.tile.rows, self.tile.vector.lanes
        left, far_left = _moved(left, along.left, u)
        right, far_right = _moved(right, along.right, u)
        line = [f.load(right, far_right + vector.first, lanes, vector.tail) for vector in self.tile.vectors]
        out: list[Value] = []
        of_bytes = not line[0].type.is_float
        multiplied = partial(multiply_add, element=left.element) if of_bytes else f.fma
        for row in rows:
            at = row + far_left
            x = word_at(f, left, at, lanes) if of_bytes else f.splat(f.load(left, at), lanes)
            out += [multiplied(x, y, s) for y, s in zip(line, sums[len(out) : len(out) + len(line)], strict=True)]
        return out


class _PairStep(NamedTuple):
    """A step of the depth of pairs: all products of second elements, then all of first ones.

    Attributes:
        tile: the operands.
        is_widened: True if the elements of pairs are float32, half of the stride of pairs from each other.
        without_mode: True if no mode of the processor counts denormal numbers as 0.
    """

    tile: Tile
    is_widened: bool
    without_mode: bool = False

    def added(self, sums: list[Value], left: Value, right: Value, along: DepthLoop, u: int) -> list[Value]:
        """Return the sums after step `u` behind these addresses."""
        f, operands = self.tile.f, (self.tile.rows, self.tile.vectors, self.tile.vector.lanes)
        left, right = left + f.index(along.left) * u, right + f.index(along.right) * u
        if f.target.has_pair_products and not self.is_widened and not self.without_mode:
            return products_added(f, sums, left, right, *operands, added_by_instruction)
        add = added_without_mode if self.without_mode else f.fma
        for half in (1, 0):
            if self.is_widened:
                x, y = left + half * self._half(along.left), right + half * self._half(along.right)
                sums = products_added(f, sums, x, y, *operands, add)
            else:
                sums = products_added(f, sums, left, right, *operands, add, partial(widened_half, half=half))
        return sums

    def _half(self, stride: Index) -> int:
        assert isinstance(stride, int), "widened operands have constant strides"
        return stride // 2


def _moved(at: Value, step: Index, u: int) -> tuple[Value, int]:
    """Return an address `u` steps further on, and the constant offset that remains to be added."""
    return (at, step * u) if isinstance(step, int) else (at + step * u, 0)


def _nested(
    step: _Step | _PairStep, sums: list[Value], left: Value, right: Value, depth: Sequence[DepthLoop]
) -> list[Value]:
    if len(depth) == 1:
        return _innermost(step, sums, left, right, depth[0])
    loop = step.tile.f.loop(0, depth[0].iterations, 1, sums)
    for i, carried in loop:
        loop.carry(_nested(step, carried, left + i * depth[0].left, right + i * depth[0].right, depth[1:]))
    return loop.results


def _innermost(step: _Step | _PairStep, sums: list[Value], left: Value, right: Value, along: DepthLoop) -> list[Value]:
    whole: Index = 0
    if not step.tile.f.target.is_compact:
        whole = (
            along.iterations // UNROLLED_DEPTH_STEPS * UNROLLED_DEPTH_STEPS
            if isinstance(along.iterations, int)
            else along.iterations & -UNROLLED_DEPTH_STEPS
        )
    for start, stop, count in ((0, whole, UNROLLED_DEPTH_STEPS), (whole, along.iterations, 1)):
        loop = step.tile.f.loop(start, stop, count, sums, is_nonempty=along.has_whole_block and count > 1)
        for i, carried in loop:
            a, b = left + i * along.left, right + i * along.right
            if count == UNROLLED_DEPTH_STEPS:
                for ask in step.tile.asks:
                    ask(i)
            for u in range(count):
                carried = step.added(carried, a, b, along, u)
            loop.carry(carried)
        sums = loop.results
    return sums


def choice(f: Function, number: Index, options: Sequence[int]) -> Index:
    """Return the option with this number; it is a constant if the number is one or all options are equal."""
    if isinstance(number, int) or len(set(options)) == 1:
        return options[number if isinstance(number, int) else 0]
    chosen: Index = f.index(options[-1])
    for i, option in enumerate(options[:-1]):
        chosen = where(number.equal(i), f.index(option), chosen)
    return chosen


def starts(f: Function, total: Index, size: int) -> Iterator[Index]:
    """Return where tiles begin; the last one overlaps the tile before it so that all tiles have equal sizes."""
    if isinstance(total, int) and total <= size:
        yield 0
        return
    for i in f.range(0, total, size):
        yield minimum(f.index(i), total - size) if size > 1 else i


def by_size(f: Function, total: int, width: int, number: Value) -> Iterator[int]:
    """Yield the possible numbers of columns of panel `number`, each under the condition that the panel has as many."""
    whole, tail = divmod(total, width)
    if not whole or not tail:
        yield width if whole else tail
        return
    with f.when(number.not_equal(whole)):
        yield width
    with f.when(number.equal(whole)):
        yield tail

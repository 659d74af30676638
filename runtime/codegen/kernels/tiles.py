"""Rows and vectors of a result in registers, along a depth of several loops.

The rows read the left operand at distances that are known, so they may be any places of an image, or channels of any
taps: one address serves all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from runtime.codegen.ir import Function, Index, Type, Value
from runtime.codegen.ir.words import minimum, where
from runtime.codegen.machine import CACHE_LINE_BYTES

UNROLLED_DEPTH_STEPS: Final = 4
"""Steps of the innermost loop written out in its body."""


class DepthLoop(NamedTuple):
    """A loop of the depth: how many turns, and elements from turn to turn in both operands."""

    iterations: Index
    left: Index
    right: Index


class PanelVector(NamedTuple):
    """A vector of a row of the right operand: its first column, and how many lanes count."""

    first: int
    tail: int


Prefetch = Callable[[Index], None]
"""Asks, at a step of the innermost loop, for what is wanted later, so that it is near by then: see `asking`."""


def prefetching(f: Function, at: Value, each: int) -> Prefetch:
    """Asks for so many elements for each step, from an address on."""
    assert at.type.element is not None, "addresses are of elements"
    line = CACHE_LINE_BYTES * 8 // at.type.element.bits

    def ask(i: Index) -> None:
        for far in range(0, each * UNROLLED_DEPTH_STEPS, line):
            f.prefetch(at + i * each, far)

    return ask


def tile(
    f: Function,
    left: Value,
    rows: Sequence[int],
    right: Value,
    columns: int,
    vector: Type,
    depth: Sequence[DepthLoop],
    asks: Sequence[Prefetch] = (),
    sums: list[Value] | None = None,
    indices: Sequence[PanelVector] = (),
) -> list[Value]:
    """The sums of products, by row the vectors of so many columns.

    Args:
        f: where it is written.
        left: the address of the left operand.
        rows: how far from there each row begins.
        right: the address of the right operand, whose rows are contiguous.
        columns: of the right operand.
        vector: of its elements.
        depth: the loops, the innermost last.
        asks: what is asked for along the innermost of them.
        sums: what the steps are added to; nothing unless given.
        indices: the vectors of a row of the right operand, if they do not lie side by side.
    """
    indices = indices or [PanelVector(j, min(vector.lanes, columns - j)) for j in range(0, columns, vector.lanes)]
    sums = sums or [f.constant(vector, 0)] * (len(rows) * len(indices))
    return _nested(_Step(f, rows, indices, vector.lanes, asks), sums, left, right, depth)


class _Step(NamedTuple):
    """A step of the depth: vectors of the right operand, and an element of the left one for every row."""

    f: Function
    rows: Sequence[int]
    places: Sequence[PanelVector]
    lanes: int
    asks: Sequence[Prefetch]

    def added(self, sums: list[Value], left: Value, right: Value) -> list[Value]:
        """The sums with what the step adds to them."""
        f = self.f
        line = [f.load(right, index.first, self.lanes, index.tail) for index in self.places]
        out: list[Value] = []
        for row in self.rows:
            x = f.splat(f.load(left, row), self.lanes)
            out += [f.fma(x, y, s) for y, s in zip(line, sums[len(out) : len(out) + len(line)], strict=True)]
        return out


def _nested(step: _Step, sums: list[Value], left: Value, right: Value, depth: Sequence[DepthLoop]) -> list[Value]:
    if len(depth) == 1:
        return _innermost(step, sums, left, right, depth[0])
    loop = step.f.loop(0, depth[0].iterations, 1, sums)
    for i, carried in loop:
        loop.carry(_nested(step, carried, left + i * depth[0].left, right + i * depth[0].right, depth[1:]))
    return loop.results


def _innermost(step: _Step, sums: list[Value], left: Value, right: Value, along: DepthLoop) -> list[Value]:
    whole = (
        along.iterations // UNROLLED_DEPTH_STEPS * UNROLLED_DEPTH_STEPS
        if isinstance(along.iterations, int)
        else along.iterations & -UNROLLED_DEPTH_STEPS
    )
    for start, stop, count in ((0, whole, UNROLLED_DEPTH_STEPS), (whole, along.iterations, 1)):
        loop = step.f.loop(start, stop, count, sums)
        for i, carried in loop:
            a, b = left + i * along.left, right + i * along.right
            if count == UNROLLED_DEPTH_STEPS:
                for ask in step.asks:
                    ask(i)
            for u in range(count):
                carried = step.added(carried, a + along.left * u, b + along.right * u)
            loop.carry(carried)
        sums = loop.results
    return sums


def choice(f: Function, number: Index, options: Sequence[int]) -> Index:
    """The option of this number: known if it is, or if all are the same."""
    if isinstance(number, int) or len(set(options)) == 1:
        return options[number if isinstance(number, int) else 0]
    chosen: Index = f.index(options[-1])
    for i, option in enumerate(options[:-1]):
        chosen = where(number.equal(i), f.index(option), chosen)
    return chosen


def starts(f: Function, total: Index, size: int) -> Iterator[Index]:
    """Where tiles begin: the last so early that it has its size."""
    if isinstance(total, int) and total <= size:
        yield 0
        return
    for i in f.range(0, total, size):
        yield minimum(f.index(i), total - size) if size > 1 else i


def by_size(f: Function, total: int, width: int, number: Value) -> Iterator[int]:
    """The columns of a panel of this number: all of them, or those that are left for the last."""
    whole, tail = divmod(total, width)
    if not whole or not tail:
        yield width if whole else tail
        return
    with f.when(number.not_equal(whole)):
        yield width
    with f.when(number.equal(whole)):
        yield tail

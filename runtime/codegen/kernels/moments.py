"""Sums and squared deviations down rows, in one pass; the mean and the variance of each column follow from them.

The rows of a block are in registers or in the first-level cache, so the deviations from the mean of the block are
exact to a few digits of the deviation itself. Blocks are joined one after the other, up to 64 in a chain, and chains
likewise, by the formula of Chan, Golub and LeVeque (1983): the squared deviations of both, and the squared distance of
both means with a weight that follows from the numbers of rows. So the result is as exact as that of two passes, even
where the mean is large beside the deviation.

All values are distances from a shift that is near the mean. Otherwise the sums themselves would lose these digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from runtime.codegen.ir import Function, Index, Value
from runtime.codegen.ir.words import absolute, convert, where
from runtime.codegen.kernels.reduction import MAX_CHAIN_ELEMENTS, SUM, by_pairs
from runtime.codegen.kernels.split import least_of

BLOCK_ROWS: Final = 16
"""Rows of a block."""

SQUARE_CHAINS: Final = 4
"""Number of parallel chains of the squares of a block."""

MAX_SHIFTS: Final = {32: 2.0**100, 64: 2.0**968}
"""Bounds on shifts by bits of an element: no distance from a smaller one overflows."""

ReadVector = Callable[[Index, int], Value]
"""Returns the vector at a row, of a numbered column of vectors."""


class Moments(NamedTuple):
    """The moments of a column of vectors over some rows.

    Attributes:
        sum: sum of the distances from the shift.
        squares: sum of the squared deviations from the mean.
    """

    sum: Value
    squares: Value


def shift_of(x: Value) -> Value:
    """Return the shift of rows that begin with this vector; 0 in lanes that are not finite or too large."""
    return where(absolute(x) < MAX_SHIFTS[x.type.bits], x, 0.0)


def moments_of_rows(f: Function, rows: int, read: ReadVector, shifts: Sequence[Value]) -> list[Moments]:
    """Return the moments of `rows` rows for each column of vectors, which `read` returns without the shift."""
    blocks, rest = divmod(rows, BLOCK_ROWS)

    def block(start: Index, count: int) -> list[Moments]:
        return [_of_block(count, [read(start + i, v) - shift for i in range(count)]) for v, shift in enumerate(shifts)]

    def chain(start: Index, stop: Index, item: int) -> list[Moments]:
        """Return the moments of blocks from `start` to before `stop`, in chains of `item` blocks or one by one."""
        loop = f.loop(start, stop, item, [f.constant(shift.type, 0) for shift in shifts for _ in range(2)])
        for i, carried in loop:
            end: Index = i + item
            if item == 1:
                links = block(i * BLOCK_ROWS, BLOCK_ROWS)
            else:
                end = least_of(end, stop)
                links = chain(i, end, item // MAX_CHAIN_ELEMENTS)
            weights = _weights(f, shifts[0], (i - start) * BLOCK_ROWS, (end - i) * BLOCK_ROWS)
            totals = [Moments(*carried[k : k + 2]) for k in range(0, len(carried), 2)]
            loop.carry([x for pair in zip(totals, links, strict=True) for x in _joined(*pair, weights)])
        found = loop.results
        return [Moments(*found[k : k + 2]) for k in range(0, len(found), 2)]

    if not blocks:
        return block(0, rest)
    item = 1
    while item * MAX_CHAIN_ELEMENTS < blocks:
        item *= MAX_CHAIN_ELEMENTS
    totals = chain(0, blocks, item)
    if rest:
        weights = _weights(f, shifts[0], blocks * BLOCK_ROWS, rest)
        pairs = zip(totals, block(blocks * BLOCK_ROWS, rest), strict=True)
        totals = [_joined(total, more, weights) for total, more in pairs]
    return totals


def _of_block(rows: int, distances: Sequence[Value]) -> Moments:
    total = by_pairs(distances, SUM)
    mean = total * (1 / rows)
    deviations = [x - mean for x in distances]
    chains: list[Value] = []
    for i, x in enumerate(deviations):
        if i < SQUARE_CHAINS:
            chains.append(x * x)
        else:
            chains[i % SQUARE_CHAINS] = x.function.fma(x, x, chains[i % SQUARE_CHAINS])
    return Moments(total, by_pairs(chains, SUM))


class _Weights(NamedTuple):
    """The weights by which rows are joined to those before them.

    Attributes:
        before: reciprocal of the number of rows before; finite if there are none, whose sum is 0.
        own: reciprocal of the number of rows.
        distance: weight of the squared distance of both means; 0 if there are no rows before.
    """

    before: Value
    own: Value
    distance: Value


def _weights(f: Function, like: Value, before: Index, own: Index) -> _Weights:
    """Return the weights for numbers of rows, computed once for all columns of vectors."""
    element = like.type.of(0)
    a, b = (convert(f.index(count), element) for count in (before, own))
    least = where(a < 1.0, 1.0, a)
    return _Weights(1.0 / least, 1.0 / b, a * b / (a + b))


def _joined(total: Moments, more: Moments, weights: _Weights) -> Moments:
    """Return the moments of the rows of both."""
    distance = more.sum * weights.own - total.sum * weights.before
    squares = total.squares + more.squares
    return Moments(total.sum + more.sum, distance.function.fma(distance * weights.distance, distance, squares))

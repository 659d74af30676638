"""Reductions in a tree that follows from the number of elements and the width of vectors, and from nothing else.

A row is read by vectors that are joined to four chains in turn. A chain has at most 64 links: what it has is then
joined to the chain above and it begins anew, as does that one after 64 links, so that a sum of a million elements
loses hardly more digits than one of a hundred. In the end chains are joined by pairs, and lanes by halves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from runtime.codegen.ir import Function, Index, Type, Value
from runtime.codegen.ir.words import across, first, maximum, minimum, where

LINKS: Final = 64
"""The most elements that are joined in a chain."""

CHAINS: Final = 4
"""Chains side by side: as many as hide the latency of an addition on two units."""


@dataclass(frozen=True)
class Joining:
    """How two values become one, and what changes nothing when it is joined."""

    join: Callable[[Value, Value], Value]
    neutral: Callable[[Type], float]


def _least(type: Type) -> float:
    if type.is_float:
        return -inf
    return -(2 ** (type.bits - 1)) if type.kind == "signed" else 0


def _largest(type: Type) -> float:
    if type.is_float:
        return inf
    return 2 ** (type.bits - (type.kind == "signed")) - 1


SUM: Final = Joining(lambda a, b: a + b, lambda _: 0)
PRODUCT: Final = Joining(lambda a, b: a * b, lambda _: 1)
LARGEST: Final = Joining(maximum, _least)
LEAST: Final = Joining(minimum, _largest)
ALL: Final = Joining(lambda a, b: a & b, lambda _: 1)
ANY: Final = Joining(lambda a, b: a | b, lambda _: 0)
"""Of 0 and 1 in whole numbers."""

Read = Callable[[Index, int | None], Sequence[Value]]
"""Gives vectors that begin at an element, one for each joining; with a tail, only the first lanes count."""


def along_row(f: Function, count: int, read: Read, joinings: Sequence[Joining], types: Sequence[Type]) -> list[Value]:
    """What the elements of a row are joined to, for each joining, alone; of no elements, what is neutral."""
    vectors = in_lanes(f, count, read, joinings, types)
    return [across(x, joining.join) for x, joining in zip(vectors, joinings, strict=True)]


def in_lanes(f: Function, count: int, read: Read, joinings: Sequence[Joining], types: Sequence[Type]) -> list[Value]:
    """Likewise, but lanes are not joined yet.

    Args:
        f: where it is written.
        count: elements of the row.
        read: gives the vectors of these types that begin at an element; called in order.
        joinings: how each of them is joined.
        types: of these vectors, which have the same number of lanes.
    """
    lanes = types[0].lanes
    vectors, tail = divmod(count, lanes)
    turns, rest = divmod(vectors, CHAINS)

    def turn(i: Index) -> list[Value]:
        return [x for c in range(CHAINS) for x in read(i * (CHAINS * lanes) + c * lanes, None)]

    chains = down_rows(f, turns, turn, [*joinings] * CHAINS, [*types] * CHAINS)
    starts = [(turns * CHAINS + c) * lanes for c in range(rest)] + ([vectors * lanes] if tail else [])
    for c, start in enumerate(starts):
        short = tail if start == vectors * lanes else None
        for j, (x, joining) in enumerate(zip(read(start, short), joinings, strict=True), c * len(joinings)):
            x = x if x.type.lanes else f.splat(x, lanes)  # a known number of rank 0 has none
            x = x if short is None else where(first(x, short), x, joining.neutral(x.type))
            chains[j] = joining.join(chains[j], x)
    return [by_pairs(chains[j :: len(joinings)], joining) for j, joining in enumerate(joinings)]


def down_rows(
    f: Function,
    count: int,
    read: Callable[[Index], Sequence[Value]],
    joinings: Sequence[Joining],
    types: Sequence[Type],
) -> list[Value]:
    """What vectors are joined to, one by one, over `count` rows; of no rows, what is neutral.

    Args:
        f: where it is written.
        count: how many rows there are.
        read: gives the vectors of a row, as many as there are joinings; called in order.
        joinings: how each of them is joined.
        types: of these vectors.
    """
    neutral = [f.constant(type, j.neutral(type)) for type, j in zip(types, joinings, strict=True)]

    def chain(start: Index, stop: Index, unit: int) -> list[Value]:
        """Join what chains of so many rows give, or rows."""
        loop = f.loop(start, stop, unit, neutral)
        for i, carried in loop:
            links = read(i) if unit == 1 else chain(i, _least_of(i + unit, stop), unit // LINKS)
            loop.carry([j.join(a, b) for j, a, b in zip(joinings, carried, links, strict=True)])
        return loop.results

    unit = 1
    while unit * LINKS < count:
        unit *= LINKS
    return chain(0, count, unit)


def _least_of(a: Index, b: Index) -> Index:
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return minimum(a, b) if isinstance(a, Value) else minimum(b, a) if isinstance(b, Value) else a


def by_pairs(chains: Sequence[Value], joining: Joining) -> Value:
    """Chains joined into one."""
    while len(chains) > 1:
        rest = chains[len(chains) & -2 :]
        chains = [*(joining.join(a, b) for a, b in zip(chains[:-1:2], chains[1::2], strict=True)), *rest]
    return chains[0]

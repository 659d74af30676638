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

MAX_CHAIN_ELEMENTS: Final = 64
"""The most elements that are joined in a chain."""

PARALLEL_CHAINS: Final = 4
"""Chains side by side: as many as hide the latency of an addition on two units."""


@dataclass(frozen=True)
class Reducer:
    """How two values become one, and what changes nothing when it is joined."""

    combine: Callable[[Value, Value], Value]
    identity: Callable[[Type], float]


def _least(type: Type) -> float:
    if type.is_float:
        return -inf
    return -(2 ** (type.bits - 1)) if type.kind == "signed" else 0


def _largest(type: Type) -> float:
    if type.is_float:
        return inf
    return 2 ** (type.bits - (type.kind == "signed")) - 1


SUM: Final = Reducer(lambda a, b: a + b, lambda _: 0)
PRODUCT: Final = Reducer(lambda a, b: a * b, lambda _: 1)
LARGEST: Final = Reducer(maximum, _least)
SMALLEST: Final = Reducer(minimum, _largest)
ALL: Final = Reducer(lambda a, b: a & b, lambda _: 1)
ANY: Final = Reducer(lambda a, b: a | b, lambda _: 0)
"""Of 0 and 1 in whole numbers."""

Read = Callable[[Index, int | None], Sequence[Value]]
"""Gives vectors that begin at an element, one for each joining; with a tail, only the first lanes count."""


def along_row(f: Function, count: int, read: Read, reducers: Sequence[Reducer], types: Sequence[Type]) -> list[Value]:
    """What the elements of a row are joined to, for each joining, alone; of no elements, what is neutral."""
    vectors = in_lanes(f, count, read, reducers, types)
    return [across(x, reducer.combine) for x, reducer in zip(vectors, reducers, strict=True)]


def in_lanes(f: Function, count: int, read: Read, reducers: Sequence[Reducer], types: Sequence[Type]) -> list[Value]:
    """Likewise, but lanes are not joined yet.

    Args:
        f: where it is written.
        count: elements of the row.
        read: gives the vectors of these types that begin at an element; called in order.
        reducers: how each of them is joined.
        types: of these vectors, which have the same number of lanes.
    """
    lanes = types[0].lanes
    vectors, tail = divmod(count, lanes)
    turns, rest = divmod(vectors, PARALLEL_CHAINS)

    def turn(i: Index) -> list[Value]:
        return [x for c in range(PARALLEL_CHAINS) for x in read(i * (PARALLEL_CHAINS * lanes) + c * lanes, None)]

    chains = down_rows(f, turns, turn, [*reducers] * PARALLEL_CHAINS, [*types] * PARALLEL_CHAINS)
    starts = [(turns * PARALLEL_CHAINS + c) * lanes for c in range(rest)] + ([vectors * lanes] if tail else [])
    for c, start in enumerate(starts):
        short = tail if start == vectors * lanes else None
        for j, (x, reducer) in enumerate(zip(read(start, short), reducers, strict=True), c * len(reducers)):
            x = x if x.type.lanes else f.splat(x, lanes)  # a known number of rank 0 has none
            x = x if short is None else where(first(x, short), x, reducer.identity(x.type))
            chains[j] = reducer.combine(chains[j], x)
    return [by_pairs(chains[j :: len(reducers)], reducer) for j, reducer in enumerate(reducers)]


def down_rows(
    f: Function,
    count: int,
    read: Callable[[Index], Sequence[Value]],
    reducers: Sequence[Reducer],
    types: Sequence[Type],
) -> list[Value]:
    """What vectors are joined to, one by one, over `count` rows; of no rows, what is neutral.

    Args:
        f: where it is written.
        count: how many rows there are.
        read: gives the vectors of a row, as many as there are joinings; called in order.
        reducers: how each of them is joined.
        types: of these vectors.
    """
    identity = [f.constant(type, j.identity(type)) for type, j in zip(types, reducers, strict=True)]

    def chain(start: Index, stop: Index, item: int) -> list[Value]:
        """Join what chains of so many rows give, or rows."""
        loop = f.loop(start, stop, item, identity)
        for i, carried in loop:
            links = read(i) if item == 1 else chain(i, _least_of(i + item, stop), item // MAX_CHAIN_ELEMENTS)
            loop.carry([j.combine(a, b) for j, a, b in zip(reducers, carried, links, strict=True)])
        return loop.results

    item = 1
    while item * MAX_CHAIN_ELEMENTS < count:
        item *= MAX_CHAIN_ELEMENTS
    return chain(0, count, item)


def _least_of(a: Index, b: Index) -> Index:
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return minimum(a, b) if isinstance(a, Value) else minimum(b, a) if isinstance(b, Value) else a


def by_pairs(chains: Sequence[Value], reducer: Reducer) -> Value:
    """Chains joined into one."""
    while len(chains) > 1:
        rest = chains[len(chains) & -2 :]
        chains = [*(reducer.combine(a, b) for a, b in zip(chains[:-1:2], chains[1::2], strict=True)), *rest]
    return chains[0]

"""Reductions in a tree that depends on the number of elements and the width of vectors alone.

Successive vectors of a row are reduced into four chains in turn. A chain has at most 64 links: its value is then
reduced into the chain above, and it begins anew, as does that one after 64 links. Therefore a sum of a million elements
loses hardly more digits than a sum of a hundred. In the end, chains are reduced in pairs, and lanes by halves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from runtime.codegen.ir import Function, Index, Type, Value
from runtime.codegen.ir.words import across, first, maximum, minimum, where

MAX_CHAIN_ELEMENTS: Final = 64
"""Upper bound on the elements of a chain."""

PARALLEL_CHAINS: Final = 4
"""Number of parallel chains: they hide the latency of an addition on two units."""


@dataclass(frozen=True)
class Reducer:
    """A reduction of two values to one, and its identity, which changes no value."""

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
"""The reducer of 0 and 1 as integers."""

Read = Callable[[Index, int | None], Sequence[Value]]
"""Returns vectors that begin at an element, one for each reducer; with a tail, only the first lanes count."""


def along_row(f: Function, count: int, read: Read, reducers: Sequence[Reducer], types: Sequence[Type]) -> list[Value]:
    """Return the reduction of a row's elements, a scalar for each reducer; the identity if there are none."""
    vectors = in_lanes(f, count, read, reducers, types)
    return [across(x, reducer.combine) for x, reducer in zip(vectors, reducers, strict=True)]


def in_lanes(f: Function, count: int, read: Read, reducers: Sequence[Reducer], types: Sequence[Type]) -> list[Value]:
    """Return the reductions of the elements of a row, by reducer, without reducing the lanes of the vectors.

    Args:
        f: the function under construction.
        count: number of elements of the row.
        read: function that returns the vectors of these types that begin at an element; called in order.
        reducers: one for each vector.
        types: types of these vectors, which have the same number of lanes.
    """
    lanes = types[0].lanes
    vectors, tail = divmod(count, lanes)
    rounds, rest = divmod(vectors, PARALLEL_CHAINS)

    def round_of_chains(i: Index) -> list[Value]:
        return [x for c in range(PARALLEL_CHAINS) for x in read(i * (PARALLEL_CHAINS * lanes) + c * lanes, None)]

    chains = down_rows(f, rounds, round_of_chains, [*reducers] * PARALLEL_CHAINS, [*types] * PARALLEL_CHAINS)
    starts = [(rounds * PARALLEL_CHAINS + c) * lanes for c in range(rest)] + ([vectors * lanes] if tail else [])
    for c, start in enumerate(starts):
        short = tail if start == vectors * lanes else None
        for j, (x, reducer) in enumerate(zip(read(start, short), reducers, strict=True), c * len(reducers)):
            x = x if x.type.lanes else f.splat(x, lanes)  # a known number of rank 0 has no lanes
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
    """Return vectors reduced element by element over `count` rows; the identity if there are no rows.

    Args:
        f: the function under construction.
        count: number of rows.
        read: function that returns the vectors of a row, one for each reducer; called in order.
        reducers: one for each vector.
        types: types of these vectors.
    """
    identity = [f.constant(type, j.identity(type)) for type, j in zip(types, reducers, strict=True)]

    def chain(start: Index, stop: Index, item: int) -> list[Value]:
        """Reduce the values of chains of `item` rows, or of single rows."""
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
    """Reduce chains to one, in pairs."""
    while len(chains) > 1:
        rest = chains[len(chains) & -2 :]
        chains = [*(reducer.combine(a, b) for a, b in zip(chains[:-1:2], chains[1::2], strict=True)), *rest]
    return chains[0]

"""Reductions in a tree that depends on the number of elements and the width of nominal vectors alone.

Successive nominal vectors of a row are reduced into four chains in turn. A chain has at most 64 links: its value is
then reduced into the chain above, and it begins anew, as does that one after 64 links. Therefore a sum of a million
elements loses hardly more digits than a sum of a hundred. In the end, chains are reduced in pairs, and lanes by halves.

A nominal vector fills a register of `Target.nominal`. On a target with narrower registers it lies in several of them,
its parts, so that the tree is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

from runtime.codegen.ir import Function, Index, Type, Value
from runtime.codegen.ir.words import across, first, maximum, minimum, where
from runtime.codegen.kernels.split import least_of

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


class Product(NamedTuple):
    """The product of two vectors, which is added to a sum in one rounding where the target has the instruction."""

    x: Value
    y: Value


Link = Value | Product
"""A vector that a chain takes, or a product that a chain of a sum takes."""

Read = Callable[[Index, int | None], Sequence[Link]]
"""Returns vectors that begin at an element, one for each reducer; with a tail, only the first lanes count."""


def along_row(f: Function, count: int, read: Read, reducers: Sequence[Reducer], types: Sequence[Type]) -> list[Value]:
    """Return the reduction of a row's elements, a scalar for each reducer; the identity if there are none."""
    vectors = whole_vectors(in_lanes(f, count, read, reducers, types), reducers)
    return [across(x, reducer.combine) for x, reducer in zip(vectors, reducers, strict=True)]


def in_lanes(
    f: Function,
    count: int,
    read: Read,
    reducers: Sequence[Reducer],
    types: Sequence[Type],
    vectors_per_pass: int | None = None,
) -> list[Value]:
    """Return the reductions of the elements of a row without reducing the lanes of the nominal vectors.

    The result has all reducers for the first part of a nominal vector, then all for the second, and so on.

    Args:
        f: the function under construction.
        count: number of elements of the row.
        read: function that returns the vectors of these types that begin at an element; called in order.
        reducers: one for each vector.
        types: types of these vectors, which have the same number of lanes.
        vectors_per_pass: vectors of each round that one pass over the row reduces, so that the chains of many reducers
            fit into registers: a divisor of the vectors of a round; all of them if it is not given. Bits are the same.
    """
    lanes, width, parts = types[0].lanes, len(reducers), f.target.vectors_per_nominal
    rounds, rest = divmod(count, PARALLEL_CHAINS * parts * lanes)
    vectors = PARALLEL_CHAINS * parts
    step = vectors_per_pass or vectors

    def some_chains(first: int) -> list[Value]:
        def read_round(i: Index) -> list[Link]:
            return [x for v in range(first, first + step) for x in read(i * (vectors * lanes) + v * lanes, None)]

        return down_rows(f, rounds, read_round, [*reducers] * step, [*types] * step)

    chains = [chain for first in range(0, vectors, step) for chain in some_chains(first)]
    for v, short in enumerate(tails_of(rest, lanes)):
        links = read(rounds * (vectors * lanes) + v * lanes, None if short == lanes else short)
        for j, (link, reducer) in enumerate(zip(links, reducers, strict=True), v * width):
            whole = [x if x.type.lanes else f.splat(x, lanes) for x in _vectors_of(link)]  # known numbers have no lanes
            counted = [counted_lanes(x, short, reducer) for x in whole]
            chains[j] = _longer(chains[j], Product(*counted) if isinstance(link, Product) else counted[0], reducer)
    links = [chains[v * width : (v + 1) * width] for v in range(vectors)]
    return by_vectors(links, reducers, parts)


def _vectors_of(link: Link) -> Sequence[Value]:
    return link if isinstance(link, Product) else (link,)


def _longer(chain: Value, link: Link, reducer: Reducer) -> Value:
    """Return a chain with one more link."""
    if isinstance(link, Product):
        return chain.function.fma(link.x, link.y, chain)
    return reducer.combine(chain, link)


def tails_of(count: int, lanes: int) -> list[int]:
    """Return the number of elements in each vector of a row."""
    whole, tail = divmod(count, lanes)
    return [lanes] * whole + [tail] * (tail > 0)


def counted_lanes(x: Value, count: int, reducer: Reducer) -> Value:
    """Return a vector with the identity in the lanes after the first `count`."""
    return x if count == x.type.lanes else where(first(x, count), x, reducer.identity(x.type))


def by_vectors(links: Sequence[Sequence[Value]], reducers: Sequence[Reducer], parts: int) -> list[Value]:
    """Reduce nominal vectors to one, in pairs: for each of their parts in turn, a vector for each reducer.

    Args:
        links: the vectors of a row, a value for each reducer.
        reducers: the reducers.
        parts: number of vectors of a nominal vector; missing parts of the last one count as the identity.
    """
    found: list[Value] = []
    for part in range(parts):
        for j, reducer in enumerate(reducers):
            chains = [link[j] for link in links[part::parts]]
            if len(chains) < -(-len(links) // parts):
                like = links[0][j]
                chains.append(like.function.constant(like.type, reducer.identity(like.type)))
            found.append(by_pairs(chains, reducer))
    return found


def whole_vectors(vectors: Sequence[Value], reducers: Sequence[Reducer]) -> list[Value]:
    """Reduce the parts of nominal vectors to one part, by halves, for each reducer."""
    return [by_halves(vectors[j :: len(reducers)], reducer) for j, reducer in enumerate(reducers)]


def by_halves(parts: Sequence[Value], reducer: Reducer) -> Value:
    """Reduce the parts of a nominal vector to one, in the order of `across`: the first half of them with the second."""
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [reducer.combine(a, b) for a, b in zip(parts[:half], parts[half:], strict=True)]
    return parts[0]


def down_rows(
    f: Function,
    count: int,
    read: Callable[[Index], Sequence[Link]],
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
            links = read(i) if item == 1 else chain(i, least_of(i + item, stop), item // MAX_CHAIN_ELEMENTS)
            loop.carry([_longer(a, b, j) for j, a, b in zip(reducers, carried, links, strict=True)])
        return loop.results

    item = 1
    while item * MAX_CHAIN_ELEMENTS < count:
        item *= MAX_CHAIN_ELEMENTS
    return chain(0, count, item)


def by_pairs(chains: Sequence[Value], reducer: Reducer) -> Value:
    """Reduce chains to one, in pairs."""
    while len(chains) > 1:
        rest = chains[len(chains) & -2 :]
        chains = [*(reducer.combine(a, b) for a, b in zip(chains[:-1:2], chains[1::2], strict=True)), *rest]
    return chains[0]

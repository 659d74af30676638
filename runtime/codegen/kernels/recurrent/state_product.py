"""The states of all rows times a panel of the recurrent weights, into scratch that the cells read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from runtime.codegen.ir import Function, Index, Type, Value
from runtime.codegen.kernels.depth import DepthLoop, PanelVector
from runtime.codegen.kernels.matmul.plan import depth_of_block, shares, tile_rows
from runtime.codegen.kernels.tiles import tile

MAX_CHAIN_DEPTH: Final = 640
"""Upper bound on the length of a chain of multiply-adds; a longer depth is split into equal blocks."""


class DepthBlocks(NamedTuple):
    """A depth in blocks whose sums are added in order: their number, their size, and the size of the rest."""

    number: int
    size: int
    rest: int


class Weights(NamedTuple):
    """The right operand of the product.

    Attributes:
        start: address of the first row.
        apart: stride of the rows in elements.
        vectors: the vectors of a row.
    """

    start: Value
    apart: int
    vectors: Sequence[PanelVector]


def packed(panel: Value, vectors: int, lanes: int) -> Weights:
    """Return a panel as a right operand; its vectors lie without gaps."""
    return Weights(panel, vectors * lanes, [PanelVector(i * lanes, lanes) for i in range(vectors)])


def product(
    f: Function,
    left: Value,
    rows: int,
    apart: int,
    weights: Weights,
    depth: DepthBlocks,
    vector: Type,
    to: Value,
    of_pairs: bool = False,
) -> None:
    """Write the product of rows x depth, `apart` from row to row, by depth x vectors."""
    vectors, parts, size = len(weights.vectors), depth.number, depth.size
    width, most = vectors * vector.lanes, tile_rows(f.target, of_pairs=of_pairs).get(vectors, 2)
    start = 0
    for count, tiles in shares(rows, most):
        for i in f.range(start, start + count * tiles, count):
            at, here = left + i * apart, to + i * width
            offsets = [row * apart for row in range(count)]
            sums = _sums(f, at, offsets, weights, 0, size, vector, of_pairs)
            for n, x in enumerate(sums):
                f.store(x, here, n * vector.lanes)
            for part in f.range(1, parts) if parts > 1 else ():
                _add(f, here, _sums(f, at, offsets, weights, f.index(part) * size, size, vector, of_pairs))
            if depth.rest:
                _add(f, here, _sums(f, at, offsets, weights, parts * size, depth.rest, vector, of_pairs))
        start += count * tiles


def _sums(
    f: Function,
    at: Value,
    rows: list[int],
    weights: Weights,
    first: Index,
    size: int,
    vector: Type,
    of_pairs: bool,
) -> list[Value]:
    """Return the sums of a block of the depth, by row the vectors of weights."""
    begin, along = weights.start + first * weights.apart, [DepthLoop(size, 1, weights.apart)]
    columns, vectors = len(weights.vectors) * vector.lanes, weights.vectors
    return tile(f, at + first, rows, begin, columns, vector, along, indices=vectors, of_pairs=of_pairs)


def _add(f: Function, to: Value, sums: list[Value]) -> None:
    """Add the sums of a block to those of the blocks before it."""
    for n, x in enumerate(sums):
        lanes = x.type.lanes
        f.store(f.load(to, n * lanes, lanes) + x, to, n * lanes)


def states_in_blocks(depth: int, of_pairs: bool = False) -> DepthBlocks:
    """Return equal blocks of at most `MAX_CHAIN_DEPTH`, or one block where none divide the depth.

    Pairs of bfloat16 have the blocks of other products of bfloat16.
    """
    if of_pairs:
        return features_in_blocks(depth)
    return DepthBlocks(parts := parts_of(depth), depth // parts, 0)


def features_in_blocks(depth: int) -> DepthBlocks:
    """Return the blocks of a product that runs before the layer: see `product.plan`."""
    size = depth_of_block(depth)
    return DepthBlocks(depth // size, size, depth % size)


def parts_of(depth: int) -> int:
    """Return the number of equal parts of the depth; 1 if none are equal."""
    fewest = -(-depth // MAX_CHAIN_DEPTH)
    return next((parts for parts in range(fewest, depth // (MAX_CHAIN_DEPTH // 8) + 1) if depth % parts == 0), 1)

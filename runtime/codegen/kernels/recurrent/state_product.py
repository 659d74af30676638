"""The states of all rows times a panel of the recurrent weights, into scratch that the cells read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from runtime.codegen.ir import Function, Index, Value
from runtime.codegen.kernels.depth import DepthLoop, PairForm, PanelVector, Tile
from runtime.codegen.kernels.matmul.plan import depth_of_block, shares, tile_rows
from runtime.codegen.kernels.pair_chains import MAX_CHAINED_ROWS, chain_columns, chain_rows
from runtime.codegen.kernels.recurrent.layer import Layer
from runtime.codegen.kernels.tiles import tile

MAX_CHAIN_DEPTH: Final = 640
"""Upper bound on the length of a chain of multiply-adds; a longer depth is split into equal blocks."""


class DepthBlocks(NamedTuple):
    """A depth in blocks whose sums are added in order: their number, their size, and the size of the rest."""

    number: int
    size: int
    rest: int

    def starts(self, f: Function) -> Iterator[tuple[Index, int]]:
        """Yield starts and sizes of blocks: a loop for equal ones."""
        for part in f.range(0, self.number):
            yield part * self.size, self.size
        if self.rest:
            yield self.number * self.size, self.rest


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
    f: Function, layer: Layer, left: Value, apart: int, weights: Weights, depth: DepthBlocks, to: Value
) -> None:
    """Write the product of rows x depth, `apart` from row to row, by depth x vectors.

    Operands of bfloat16 are copies in the form that the layer states.
    """
    vectors, parts, size, lanes = len(weights.vectors), depth.number, depth.size, layer.lanes
    bounds = MAX_CHAINED_ROWS if layer.is_chained else tile_rows(f.target, of_pairs=layer.of_pairs)
    width, most = vectors * lanes, bounds.get(vectors, 2)
    start = 0
    for count, tiles in shares(layer.rows, most):
        for i in f.range(start, start + count * tiles, count):
            at, here = left + i * apart, to + i * width
            offsets = [row * apart for row in range(count)]
            sums = _sums(f, layer, at, offsets, weights, 0, size)
            for n, x in enumerate(sums):
                f.store(x, here, n * lanes)
            for part in f.range(1, parts) if parts > 1 else ():
                _add(f, here, _sums(f, layer, at, offsets, weights, f.index(part) * size, size))
            if depth.rest:
                _add(f, here, _sums(f, layer, at, offsets, weights, parts * size, depth.rest))
        start += count * tiles


def chain_operands(
    f: Function, layer: Layer, depth: DepthBlocks, left: tuple[Value, int] | None = None, right: Weights | None = None
) -> None:
    """Combine words of an operand to neighbours of a chain, if products read these; the left one has a stride."""
    for start, size in depth.starts(f) if layer.is_chained else ():
        if left is not None:
            chain_rows(f, left[0] + start, layer.rows, left[1], size, chains_rest=True)
        if right is not None:
            columns = len(right.vectors) * layer.lanes
            at = right.start + start * right.apart
            chain_columns(f, at, columns, right.apart, size, layer.vector, chains_rest=True)


def _sums(
    f: Function, layer: Layer, at: Value, rows: list[int], weights: Weights, first: Index, size: int
) -> list[Value]:
    """Return the sums of a block of the depth, by row the vectors of weights."""
    each, vectors = layer.elements, weights.vectors
    pairs = PairForm(layer.is_widened, layer.is_chained, chains_rest=layer.is_chained) if layer.of_pairs else None
    right, depth = weights.start + first * (each * weights.apart), [DepthLoop(size, each, each * weights.apart)]
    return tile(Tile(at + first * each, rows, right, vectors, layer.vector, depth), pairs=pairs)


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

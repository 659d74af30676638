"""The states of all rows times a panel of the recurrent weights, into scratch where the cells find them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from runtime.engines.native.convolution.tile import Along, Place, tile
from runtime.engines.native.ir import Function, Type, Value
from runtime.engines.native.product.plan import MOST_ROWS, shares

CHAIN: Final = 640
"""The longest chain of multiply-adds, or else equal parts of the depth."""


class Weights(NamedTuple):
    """What states are multiplied with.

    Attributes:
        start: the address of the first row.
        apart: elements from row to row.
        places: the vectors of a row.
    """

    start: Value
    apart: int
    places: Sequence[Place]


def packed(panel: Value, vectors: int, lanes: int) -> Weights:
    """A panel, whose vectors lie on end."""
    return Weights(panel, vectors * lanes, [Place(i * lanes, lanes) for i in range(vectors)])


def product(
    f: Function, left: Value, rows: int, apart: int, weights: Weights, depth: int, vector: Type, to: Value
) -> None:
    """Write the product of rows x depth, `apart` from row to row, by depth x vectors."""
    vectors, parts = len(weights.places), parts_of(depth)
    width, most = vectors * vector.lanes, MOST_ROWS[f.target.registers, f.target.fma].get(vectors, 2)
    size = depth // parts
    start = 0
    for count, tiles in shares(rows, most):
        for i in f.range(start, start + count * tiles, count):
            at, here = left + i * apart, to + i * width
            offsets = [row * apart for row in range(count)]
            along = [Along(size, 1, weights.apart)]
            if parts == 1:
                sums = tile(f, at, offsets, weights.start, width, vector, along, places=weights.places)
                for n, x in enumerate(sums):
                    f.store(x, here, n * vector.lanes)
                continue
            for n in range(count * vectors):
                f.store(f.constant(vector, 0), here, n * vector.lanes)
            for part in f.range(0, parts):
                first = f.index(part) * size
                begin = weights.start + first * weights.apart
                sums = tile(f, at + first, offsets, begin, width, vector, along, places=weights.places)
                for n, x in enumerate(sums):
                    f.store(f.load(here, n * vector.lanes, vector.lanes) + x, here, n * vector.lanes)
        start += count * tiles


def parts_of(depth: int) -> int:
    """Into how many equal parts the depth is cut; one, if there are none."""
    fewest = -(-depth // CHAIN)
    return next((parts for parts in range(fewest, depth // (CHAIN // 8) + 1) if depth % parts == 0), 1)

"""The states of all rows times a panel of the recurrent weights, into scratch where the cells find them."""

from __future__ import annotations

from typing import Final

from runtime.engines.native.convolution.tile import Along, tile
from runtime.engines.native.ir import Function, Type, Value
from runtime.engines.native.product.plan import MOST_ROWS, shares

CHAIN: Final = 640
"""The longest chain of multiply-adds, or else equal parts of the depth."""


def product(
    f: Function,
    left: Value,
    rows: int,
    apart: int,
    panel: Value,
    vectors: int,
    depth: int,
    vector: Type,
    to: Value,
) -> None:
    """Write the product of rows x depth, `apart` from row to row, by depth x vectors."""
    width, parts = vectors * vector.lanes, parts_of(depth)
    most = MOST_ROWS[f.target.registers, f.target.fma].get(vectors, 2)
    size = depth // parts
    start = 0
    for count, tiles in shares(rows, most):
        for i in f.range(start, start + count * tiles, count):
            at, here = left + i * apart, to + i * width
            offsets = [row * apart for row in range(count)]
            if parts == 1:
                loops = [Along(depth, 1, width)]
                for n, x in enumerate(tile(f, at, offsets, panel, width, vector, loops)):
                    f.store(x, here, n * vector.lanes)
                continue
            for n in range(count * vectors):
                f.store(f.constant(vector, 0), here, n * vector.lanes)
            for part in f.range(0, parts):
                first, along = f.index(part) * size, [Along(size, 1, width)]
                sums = tile(f, at + first, offsets, panel + first * width, width, vector, along)
                for n, x in enumerate(sums):
                    f.store(f.load(here, n * vector.lanes, vector.lanes) + x, here, n * vector.lanes)
        start += count * tiles


def parts_of(depth: int) -> int:
    """Into how many equal parts the depth is cut; one, if there are none."""
    fewest = -(-depth // CHAIN)
    return next((parts for parts in range(fewest, depth // (CHAIN // 8) + 1) if depth % parts == 0), 1)

"""Where the tiles of Winograd's filtering lie: the pixels that one sees, and its places in the result."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from runtime.engines.native.convolution.winograd.plan import Plan
from runtime.engines.native.convolution.winograd.transforms import PLACES, SIDE
from runtime.engines.native.ir import Function, Value
from runtime.engines.native.ir.words import where


class Tile(NamedTuple):
    """One of all tiles.

    Attributes:
        image: its image.
        row: of its first place in the result.
        column: likewise.
    """

    image: Value
    row: Value
    column: Value


def tile_at(plan: Plan, number: Value) -> Tile:
    """The tile of this number: images one after the other, in each the tiles row by row."""
    image, within = number // (plan.down * plan.across), number % (plan.down * plan.across)
    return Tile(image, within // plan.across * PLACES, within % plan.across * PLACES)


def corner(plan: Plan, at: Tile) -> tuple[Value, Value]:
    """The row and column of the source at which what a tile sees begins."""
    rows, columns = plan.shape.rows, plan.shape.columns
    return at.row + (rows.phases[0].start - rows.before), at.column + (columns.phases[0].start - columns.before)


def is_inside(plan: Plan, row: Value, column: Value) -> Value:
    """Whether the source has this pixel."""
    rows, columns = plan.shape.rows.source, plan.shape.columns.source
    return (row >= 0) & (row < rows) & (column >= 0) & (column < columns)


def pixels(f: Function, plan: Plan, source: Value, at: Tile) -> list[list[Value]]:
    """The addresses of the pixels that a tile sees; of those that the source does not have, that of zeros."""
    rows, columns, deep = plan.shape.rows.source, plan.shape.columns.source, plan.shape.deep
    assert source.type.element is not None, "a source has elements"
    size = deep * source.type.element.bits // 8
    nothing = f.cast(f.data(f"zeros_{size}", bytes(size)), source.type.element)
    top, left = corner(plan, at)
    first = source + ((at.image * rows + top) * columns + left) * deep
    down = [(top + i >= 0) & (top + i < rows) for i in range(SIDE)]
    right = [(left + j >= 0) & (left + j < columns) for j in range(SIDE)]
    return [
        [where(down[i] & right[j], first + (i * columns + j) * deep, nothing) for j in range(SIDE)] for i in range(SIDE)
    ]


def places(plan: Plan, at: Tile) -> Iterator[tuple[int, int, Value, Value | None]]:
    """Rows and columns of a tile's places, their numbers in the result, and a condition if they may not exist."""
    high, wide = plan.shape.rows.places, plan.shape.columns.places
    first = (at.image * high + at.row) * wide + at.column
    for i, j in product(range(PLACES), repeat=2):
        asked = [
            below < end - 1 for far, below, end in ((i, at.row, high), (j, at.column, wide)) if far and end % PLACES
        ]
        yield i, j, first + (i * wide + j), asked[0] & asked[-1] if asked else None

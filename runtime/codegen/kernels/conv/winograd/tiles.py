"""Where the tiles of Winograd's filtering lie: the pixels that one sees, and its places in the result."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from runtime.codegen.ir import Function, Index, Value
from runtime.codegen.ir.words import where
from runtime.codegen.kernels.conv.winograd.transforms import POSITIONS, TILE_OUTPUTS, TILE_PIXELS, of_pixels


class ImageAxis(NamedTuple):
    """An axis of images: how long it is, the zeros before it, and how many places of the result it has."""

    source: int
    before: int
    pixels: int

    @property
    def tiles(self) -> int:
        """Along it."""
        return -(-self.pixels // TILE_OUTPUTS)


class Tiling(NamedTuple):
    """All tiles: those of an image row by row, and images one after the other."""

    images: int
    rows: ImageAxis
    columns: ImageAxis

    @property
    def tiles(self) -> int:
        """How many there are."""
        return self.images * self.rows.tiles * self.columns.tiles

    def at(self, number: Value) -> Tile:
        """The tile of this number."""
        image, within = (
            number // (self.rows.tiles * self.columns.tiles),
            number % (self.rows.tiles * self.columns.tiles),
        )
        return Tile(image, within // self.columns.tiles * TILE_OUTPUTS, within % self.columns.tiles * TILE_OUTPUTS)

    def corner(self, at: Tile) -> tuple[Value, Value]:
        """The row and column of the source at which what a tile sees begins."""
        return at.row - self.rows.before, at.column - self.columns.before

    def is_inside(self, row: Value, column: Value) -> Value:
        """Whether the source has this pixel."""
        return (row >= 0) & (row < self.rows.source) & (column >= 0) & (column < self.columns.source)

    def pixels(self, f: Function, source: Value, channels: int, at: Tile) -> list[list[Value]]:
        """The addresses of the pixels that a tile sees; of those that the source does not have, that of zeros."""
        rows, columns = self.rows.source, self.columns.source
        nothing, (top, left) = zeros_of(f, source, channels), self.corner(at)
        first = source + ((at.image * rows + top) * columns + left) * channels
        down = [(top + i >= 0) & (top + i < rows) for i in range(TILE_PIXELS)]
        right = [(left + j >= 0) & (left + j < columns) for j in range(TILE_PIXELS)]
        return [
            [where(down[i] & right[j], first + (i * columns + j) * channels, nothing) for j in range(TILE_PIXELS)]
            for i in range(TILE_PIXELS)
        ]

    def outputs(self, at: Tile) -> Iterator[tuple[int, int, Value, Value | None]]:
        """Rows and columns of a tile's places, their numbers in the result, and a condition if they may not exist."""
        high, wide = self.rows.pixels, self.columns.pixels
        first = (at.image * high + at.row) * wide + at.column
        for i, j in product(range(TILE_OUTPUTS), repeat=2):
            ends = (i, at.row, high), (j, at.column, wide)
            asked = [begin < end - 1 for far, begin, end in ends if far and end % TILE_OUTPUTS]
            yield i, j, first + (i * wide + j), asked[0] & asked[-1] if asked else None


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


class TransformedLayout(NamedTuple):
    """How transformed pixels of a block lie.

    Attributes:
        channels: of a pixel.
        lanes: of a vector.
        tile: elements from a tile to the next.
        position: from a position to the next.
        contiguous_channels: channels that lie beside each other, a multiple of all lanes; the next ones lie behind all
            positions.
    """

    channels: int
    lanes: int
    tile: int
    position: int
    contiguous_channels: int

    @property
    def size(self) -> int:
        """Elements of all of them."""
        return -(-self.channels // self.contiguous_channels) * POSITIONS * self.position


def transform_pixels(
    f: Function,
    tiling: Tiling,
    laid: TransformedLayout,
    source: Value,
    to: Value,
    first: Index,
    tiles: tuple[Index, Index],
) -> None:
    """Write the positions of these tiles of the block that begins with the first."""
    for t in f.range(*tiles):
        addresses = tiling.pixels(f, source, laid.channels, tiling.at(f.index(first) + t))
        at = to + f.index(t) * laid.tile
        for c, tail in vectors_of(f, laid.channels, laid.lanes):
            position = (
                c
                if laid.contiguous_channels == laid.channels
                else c % laid.contiguous_channels + c // laid.contiguous_channels * (POSITIONS * laid.position)
            )
            seen = [[f.load(pixel, c, laid.lanes, tail) for pixel in line] for line in addresses]
            for i, line in enumerate(of_pixels(seen)):
                for j, x in enumerate(line):
                    f.store(x, at + position, (i * TILE_PIXELS + j) * laid.position, tail)


def vectors_of(f: Function, channels: int, lanes: int) -> Iterator[tuple[Index, int]]:
    """Where vectors of channels begin, and how many lanes count."""
    whole = channels // lanes * lanes
    for c in f.range(0, whole, lanes):
        yield c, lanes
    if tail := channels - whole:
        yield whole, tail


def zeros_of(f: Function, like: Value, count: int) -> Value:
    """The address of so many zeros."""
    assert like.type.element is not None, "it is an address of elements"
    size = count * like.type.element.bits // 8
    return f.cast(f.data(f"zeros_{size}", bytes(size)), like.type.element)

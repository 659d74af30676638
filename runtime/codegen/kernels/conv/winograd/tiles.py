"""The tiles of Winograd's filtering: the pixels that a tile sees, and its output pixels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from runtime.codegen.ir import Function, Index, Value
from runtime.codegen.ir.words import maximum, minimum, where
from runtime.codegen.kernels.conv.winograd.transforms import POSITIONS, TILE_OUTPUTS, TILE_PIXELS, of_pixels
from runtime.codegen.kernels.pair_chains import pair_of_row, store_depth, vectors_of_depth, whole_groups
from runtime.codegen.kernels.pair_products import in_pairs, rounded_wide


class ImageAxis(NamedTuple):
    """An axis of images: its extent, the zeros before it, and the number of output positions."""

    source: int
    before: int
    pixels: int

    @property
    def tiles(self) -> int:
        """Number of tiles along the axis."""
        return -(-self.pixels // TILE_OUTPUTS)


class Tiling(NamedTuple):
    """All tiles: those of an image row by row, and images one after the other.

    Attributes:
        images: number of images, or of pairs of images.
        rows, columns: axes of an image.
        of_pairs: True if a tile is the same one of two neighbouring images; addresses are those of the first one.
    """

    images: int
    rows: ImageAxis
    columns: ImageAxis
    of_pairs: bool = False

    @property
    def tiles(self) -> int:
        """The number of tiles."""
        return self.images * self.rows.tiles * self.columns.tiles

    def at(self, number: Value) -> ImageTile:
        """Return the tile of a number."""
        image, within = (
            number // (self.rows.tiles * self.columns.tiles),
            number % (self.rows.tiles * self.columns.tiles),
        )
        image = image * 2 if self.of_pairs else image
        return ImageTile(image, within // self.columns.tiles * TILE_OUTPUTS, within % self.columns.tiles * TILE_OUTPUTS)

    def images_of(self, at: ImageTile) -> list[ImageTile]:
        """Return the tile, or both of a pair."""
        return [at, at._replace(image=at.image + 1)] if self.of_pairs else [at]

    def corner(self, at: ImageTile) -> tuple[Value, Value]:
        """Return row and column of the source at which the pixels of a tile begin."""
        return at.row - self.rows.before, at.column - self.columns.before

    def is_inside(self, row: Value, column: Value) -> Value:
        """Return a condition that is true if the source has this pixel."""
        return (row >= 0) & (row < self.rows.source) & (column >= 0) & (column < self.columns.source)

    def pixels(self, f: Function, source: Value, channels: int, at: ImageTile) -> list[list[Value]]:
        """Return the addresses of the pixels that a tile sees; zeros stand for pixels outside of the source."""
        rows, columns = self.rows.source, self.columns.source
        nothing, (top, left) = zeros_of(f, source, channels), self.corner(at)
        first = source + ((at.image * rows + top) * columns + left) * channels
        down = [(top + i >= 0) & (top + i < rows) for i in range(TILE_PIXELS)]
        right = [(left + j >= 0) & (left + j < columns) for j in range(TILE_PIXELS)]
        return [
            [where(down[i] & right[j], first + (i * columns + j) * channels, nothing) for j in range(TILE_PIXELS)]
            for i in range(TILE_PIXELS)
        ]

    def outputs(self, at: ImageTile) -> Iterator[tuple[int, int, Value, Value | None]]:
        """Yield, for each output pixel of a tile: row, column, number, and the condition for it to exist, or None."""
        high, wide = self.rows.pixels, self.columns.pixels
        first = (at.image * high + at.row) * wide + at.column
        for i, j in product(range(TILE_OUTPUTS), repeat=2):
            ends = (i, at.row, high), (j, at.column, wide)
            asked = [begin < end - 1 for far, begin, end in ends if far and end % TILE_OUTPUTS]
            yield i, j, first + (i * wide + j), asked[0] & asked[-1] if asked else None


class ImageTile(NamedTuple):
    """One of the tiles.

    Attributes:
        image: number of its image.
        row: row of its first output pixel.
        column: column of that pixel.
    """

    image: Value
    row: Value
    column: Value


class TransformedLayout(NamedTuple):
    """The layout of transformed pixels of a block.

    Attributes:
        channels: channels of a pixel.
        lanes: lanes of a vector.
        tile: stride of tiles, or of the rows of a block, in elements.
        position: stride of positions.
        contiguous_channels: number of channels that are contiguous, a multiple of all lanes; the next ones follow after
            all positions.
        is_rounded: True if transformed pixels are rounded to bfloat16, as a prepared operand of `kernels.pair_chains`.
    """

    channels: int
    lanes: int
    tile: int
    position: int
    contiguous_channels: int
    is_rounded: bool = False

    @property
    def size(self) -> int:
        """Elements of all transformed pixels."""
        return -(-self.channels // self.contiguous_channels) * POSITIONS * self.position


class BlockOfTiles(NamedTuple):
    """A range of tiles of a block.

    Attributes:
        first: the first tile of the block.
        tiles: the range, counted from that tile.
        of_block: number of tiles of the block.
    """

    first: Index
    tiles: tuple[Index, Index]
    of_block: Index

    def rows(self, f: Function, tiling: Tiling) -> Iterator[tuple[Index, list[ImageTile]]]:
        """Yield the rows of the transformed tiles, and the tiles that a row has: two if it has words.

        Pairs have the form that the target prefers; see `kernels.pair_chains`.
        """
        start, stop = self.tiles
        if tiling.of_pairs and f.target.widens_pairs:
            for row in f.range(start * 2, stop * 2):
                at = tiling.at((f.index(row) >> 1) + self.first)
                yield row, [at._replace(image=at.image + (f.index(row) & 1))]
            return
        if tiling.of_pairs and f.target.chains_pairs:
            middle = _between(start, whole_groups(self.of_block), stop)
            for row in f.range(start, middle):
                tile, half = pair_of_row(f.index(row))
                both = [tiling.at(tile + far + self.first) for far in (1, 0)]  # of a chain, the later number is below
                yield row, [at._replace(image=at.image + half) for at in both]
            start = middle
        for t in f.range(start, stop):
            yield t, tiling.images_of(tiling.at(f.index(t) + self.first))


def _between(start: Index, x: Index, stop: Index) -> Index:
    """Return x, or the end of the range that is nearer to it."""
    if isinstance(start, int) and isinstance(x, int) and isinstance(stop, int):
        return max(start, min(x, stop))
    f = next(each.function for each in (start, x, stop) if isinstance(each, Value))
    return maximum(f.index(start), minimum(f.index(x), stop))


def in_row(tiling: Tiling, found: Sequence[list[Value]]) -> list[Value]:
    """Return the positions of a vector of the tiles of a row, as they are stored."""
    if len(found) == 2:
        return in_pairs(*found)
    return [rounded_wide(x) for x in found[0]] if tiling.of_pairs else found[0]


def transform_pixels(
    f: Function, tiling: Tiling, laid: TransformedLayout, source: Value, to: Value, block: BlockOfTiles
) -> None:
    """Write the positions of the pixels of a range of tiles."""
    for row, own in block.rows(f, tiling):
        images = [tiling.pixels(f, source, laid.channels, tile) for tile in own]
        at = to + f.index(row) * laid.tile
        for c, tail, is_combined in _channels(f, laid):
            position = (
                c
                if laid.contiguous_channels == laid.channels
                else c % laid.contiguous_channels + c // laid.contiguous_channels * (POSITIONS * laid.position)
            )
            found: list[list[Value]] = []
            for addresses in images:
                seen = [[f.load(pixel, c, laid.lanes, tail) for pixel in line] for line in addresses]
                found.append([x for line in of_pixels(seen) for x in line])
            for number, x in enumerate(in_row(tiling, found)):
                if laid.is_rounded:
                    store_depth(x, at + number * laid.position, c, tail, is_combined)
                else:
                    f.store(x, at + position, number * laid.position, tail)


def _channels(f: Function, laid: TransformedLayout) -> Iterator[tuple[Index, int, bool]]:
    """Yield the vectors of channels: those of `vectors_of_depth` if channels are the depth."""
    if laid.is_rounded:
        yield from vectors_of_depth(f, laid.channels, laid.lanes)
        return
    for c, tail in vectors_of(f, laid.channels, laid.lanes):
        yield c, tail, False


def vectors_of(f: Function, channels: int, lanes: int) -> Iterator[tuple[Index, int]]:
    """Give the first channels of vectors, and the numbers of lanes that count."""
    whole = channels // lanes * lanes
    for c in f.range(0, whole, lanes):
        yield c, lanes
    if tail := channels - whole:
        yield whole, tail


def zeros_of(f: Function, like: Value, count: int) -> Value:
    """Return the address of `count` zeros."""
    size = count * like.element.bits // 8
    return f.cast(f.data(f"zeros_{size}", bytes(size)), like.element)

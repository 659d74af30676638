"""The partition of the gradient of a filter: tiles of rows of the filter, panels, and blocks of pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from runtime.codegen.costs import SEPARATE_TAPS_GAIN, TWO_TILE_SIZES_PENALTY
from runtime.codegen.ir import Type
from runtime.codegen.kernels.conv.borders import Border
from runtime.codegen.kernels.conv.plan import CONFLICT_STRIDE_BYTES, WANTED_ITEMS
from runtime.codegen.kernels.matmul.plan import shares, step_cycles, tile_rows
from runtime.codegen.kernels.pair_chains import chained_tiles
from runtime.codegen.kernels.pair_products import GROUP_PAIRS
from runtime.codegen.machine import NOMINAL_TARGET, Target

BLOCK_PIXELS: Final = 256
"""Pixels in a block."""

MAX_MERGED_CHANNELS: Final = 16
"""Number of channels below which a tile may have rows of several taps."""


MAX_BLOCK_IMAGES: Final = 32
"""Upper bound on the images of a block with short lines."""

MAX_SHORT_LINE_PIXELS: Final = 16
"""Pixels of a line up to which it is short."""

MIN_PACKED_FILTER_ROWS: Final = 256
"""Least rows of the filter for which a copy of the gradient is read often enough to cost little."""


class FilterAxis(NamedTuple):
    """An axis of the images: extents, and the parameters of the window."""

    source: int
    pixels: int
    window: int
    stride: int
    before: int
    dilation: int

    def seen(self, tap: int) -> tuple[int, int]:
        """Return the first position at which a tap is inside of the image, and the one after the last."""
        offset = self.before - tap * self.dilation
        first = max(-(-offset // self.stride), 0)
        stop = min((self.source - 1 + offset) // self.stride + 1, self.pixels)
        return min(first, self.pixels), max(stop, min(first, self.pixels))

    def span(self, pixels: int) -> int:
        """Return the extent of a padded image that `pixels` output positions see."""
        return (pixels - 1) * self.stride + (self.window - 1) * self.dilation + 1


def equal_ranges(channels: int, lanes: int, wanted: int) -> int:
    """Return the number of equal ranges of whole vectors of channels: about `wanted`, 1 if there are none."""
    vectors, rest = divmod(channels, lanes)
    counts = [count for count in range(1, max(2 * wanted, 2)) if not rest and vectors % count == 0]
    return next((count for count in counts if count >= wanted), max(counts, default=1))


@dataclass(frozen=True)
class FilterGradient:
    """The gradient of a filter: its sizes and its partition.

    Attributes:
        element: type of all operands.
        images: number of images.
        rows, columns: axes of the images.
        groups: groups of channels.
        deep: input channels of a group.
        wide: output channels of a group.
        lanes: lanes of a vector.
        vectors: vectors of a tile.
        most: upper bound on the rows of a tile.
        is_merged: True if a tile has rows of several taps.
        of_pairs: True if elements are pairs of bfloat16 of two images, and `images` counts pairs of images.
        of_bfloat16: True if operands are bfloat16: the order of additions is that of `NOMINAL_TARGET` on all targets,
            and tiles have rows of several taps only in parts.
        nominal_panels: panels of the tile for the nominal target, which set the number of parts.
    """

    element: Type
    images: int
    rows: FilterAxis
    columns: FilterAxis
    groups: int
    deep: int
    wide: int
    lanes: int
    vectors: int = 1
    most: int = 1
    is_merged: bool = False
    of_pairs: bool = False
    of_bfloat16: bool = False
    nominal_panels: int = 0

    def on(self, target: Target) -> FilterGradient:
        """Return this gradient with the lanes of another target."""
        return replace(self, lanes=target.lanes(self.element.bits))

    def planned(self, target: Target) -> FilterGradient:
        """Return this gradient with the tile that takes the fewest cycles.

        Parts and blocks follow from the tile of the nominal target.
        """
        order = NOMINAL_TARGET if self.of_bfloat16 else target.nominal
        nominal = self.on(order)._best(order, (False, True))
        return replace(self._best(target, (nominal.is_merged,)), nominal_panels=nominal.panels)

    def kept(self, target: Target) -> FilterGradient:
        """Return this gradient with the tile for combined words that keeps its sums in registers, if there are such."""
        if not (self.of_pairs and target.chains_pairs):
            return self
        tiles = chained_tiles(self.lanes, self.deep, self.wide)
        most, vectors = min(tiles, key=lambda tile: tiles[tile])
        return replace(self, vectors=vectors, most=most)

    def _best(self, target: Target, merged: Sequence[bool]) -> FilterGradient:
        """Return the cheapest tile; a row of the filter that only fits the nominal registers is a tile of one vector.

        Such rows are short, so their sums hardly leave the registers.
        """
        ways = [
            replace(self, vectors=vectors, most=most, is_merged=is_merged)
            for vectors, most in tile_rows(target, of_pairs=self.of_pairs).items()
            for is_merged in merged
        ]
        ways = [way for way in ways if way.is_merged <= way.may_merge]
        ways = ways or [replace(self, vectors=1, most=self.line, is_merged=True)]
        return min(ways, key=lambda way: way.cycles(target))

    @property
    def places(self) -> int:
        """Output pixels of all images."""
        return self.images * self.rows.pixels * self.columns.pixels

    def cycles(self, target: Target) -> float:
        """Return the cycles for each output pixel."""
        tiles = [(size, count * self.repetitions) for size, count in self.tiles]
        cycles = sum(n * step_cycles(target, r, self.vectors, of_pairs=self.of_pairs) for r, n in tiles)
        return (
            cycles
            * self.across
            * (TWO_TILE_SIZES_PENALTY if len(tiles) > 1 else 1)
            * (1 if self.is_merged else SEPARATE_TAPS_GAIN)
        )

    @property
    def width(self) -> int:
        """Channels of a panel."""
        return self.vectors * self.lanes

    @property
    def across(self) -> int:
        """Panels of a group."""
        return -(-self.wide // self.width)

    @property
    def panels(self) -> int:
        """Panels of all groups."""
        return self.groups * self.across

    @property
    def size(self) -> int:
        """Elements of the filter."""
        return self.rows.window * self.columns.window * self.deep * self.groups * self.wide

    @property
    def line(self) -> int:
        """Elements of a row of the filter for one output channel: its columns times the input channels."""
        return self.deep * self.columns.window

    @property
    def may_merge(self) -> bool:
        """True if a tile may have rows of several taps: whole rows of the filter, or a part of one row."""
        in_parts = self.groups == self.columns.dilation == 1
        fits = in_parts or (self.line <= self.most and not self.of_bfloat16)
        return self.deep < MAX_MERGED_CHANNELS and self.columns.window > 1 and fits

    @property
    def tiles(self) -> list[tuple[int, int]]:
        """Rows of tiles, with the number of each: tiles cover the filter or one of its rows if merged, else a tap."""
        if not self.is_merged:
            return shares(self.deep, self.most)
        if self.line > self.most:
            return shares(self.line, self.most)
        return [(size * self.line, count) for size, count in shares(self.rows.window, self.most // self.line)]

    @property
    def repetitions(self) -> int:
        """Number of times that `tiles` are computed for a block of pixels, once for each tap or row of the filter."""
        if not self.is_merged:
            return self.rows.window * self.columns.window
        return self.rows.window if self.line > self.most else 1

    @property
    def block(self) -> tuple[int, int]:
        """Images and output rows in a block."""
        together = self.together
        if together > 1:
            most = BLOCK_PIXELS if self.of_pairs else 2 * BLOCK_PIXELS
            return together, min(max(most // (together * self.columns.pixels), 1), self.rows.pixels)
        return self.whole_lines

    @property
    def whole_lines(self) -> tuple[int, int]:
        """Images and rows of a block without a copy: several whole images, or some rows of one image."""
        image = self.rows.pixels * self.columns.pixels
        if image <= BLOCK_PIXELS:
            return min(BLOCK_PIXELS // image, self.images), self.rows.pixels
        return 1, max(BLOCK_PIXELS // self.columns.pixels, 1)

    @property
    def together(self) -> int:
        """Number of images that a copy interleaves pixel by pixel; 1 if there is no copy.

        Short lines make short loops; in the copy, a loop goes over the same pixel of all these images.
        """
        if self.is_merged or self.columns.pixels > MAX_SHORT_LINE_PIXELS or self.repetitions == 1:
            return 1
        most = min(MAX_BLOCK_IMAGES, BLOCK_PIXELS // self.columns.pixels) if self.of_pairs else MAX_BLOCK_IMAGES
        return max(count for count in range(1, most + 1) if self.images % count == 0)

    @property
    def is_interleaved(self) -> bool:
        """True if a copy has whole groups of pairs of images at each pixel."""
        return self.of_pairs and self.together % GROUP_PAIRS == 0

    @property
    def packs(self) -> bool:
        """True if a panel of the gradient is copied for each block of pixels."""
        if self.together > 1 or self.of_pairs:
            return True
        rows, row = self.repetitions * sum(size * count for size, count in self.tiles), self.groups * self.wide
        return self.panels > 1 and (
            rows >= MIN_PACKED_FILTER_ROWS or row * self.element.bits // 8 % CONFLICT_STRIDE_BYTES == 0
        )

    @property
    def pixel(self) -> int:
        """Stride of pixels in the interleaved copy: more than the channels, so that cache sets differ."""
        return self.groups * self.deep + self.lanes

    @property
    def copies(self) -> bool:
        """True if the images are copied first, since they are interleaved pixel by pixel or as pairs."""
        return self.together > 1 or self.of_pairs

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        images, rows = self.block
        return -(-self.images // images) * -(-self.rows.pixels // rows)

    @property
    def parts(self) -> int:
        """Number of parts of all blocks; their sums are added at the end."""
        return min(-(-WANTED_ITEMS // (self.nominal_panels or self.panels)), self.blocks)

    @property
    def is_bordered(self) -> bool:
        """True if taps see indices outside of the input."""
        return any(side.before or side.span(side.pixels) > side.source for side in (self.rows, self.columns))

    @property
    def border(self) -> Border:
        """The padded copy of a block of the input."""
        channels = self.groups * self.deep
        return Border.around(self.rows, self.columns, self.block[1], channels, channels)

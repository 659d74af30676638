"""The partition and the cost of the gradient of a filter by Winograd's filtering.

If the sums of all positions fit into the caches, a work item has a part of all tiles, which it transforms block by
block. If they do not, and there are few tiles, all tiles are transformed before, and a work item has some input
channels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from runtime.codegen.costs import (
    GRADIENT_TRANSFORM_CYCLES,
    MAX_WIDE_TILE_SLOWDOWN,
    OUTPUT_TRANSFORM_CYCLES,
    PART_GRADIENT_CYCLES,
    PIXEL_TRANSFORM_CYCLES,
    STEPS_PER_ADDED_TILE,
    STEPS_PER_TILE,
)
from runtime.codegen.kernels.conv.filter_plan import FilterAxis, FilterGradient
from runtime.codegen.kernels.conv.plan import CONFLICT_STRIDE_BYTES, WANTED_ITEMS
from runtime.codegen.kernels.conv.winograd.plan import MAX_CACHED_FILTER_BYTES
from runtime.codegen.kernels.conv.winograd.tiles import ImageAxis, Tiling, TransformedLayout
from runtime.codegen.kernels.conv.winograd.transforms import FILTER_TAPS, POSITIONS
from runtime.codegen.kernels.matmul.plan import shares, tile_costs
from runtime.codegen.kernels.pair_chains import chained_tiles, elements_of_pair
from runtime.codegen.machine import CACHE_LINE_BYTES, Target

BLOCK_TILE_CHANNELS: Final = 8192
"""Pairs of a tile and a channel in a block whose transformed pixels and gradients fit into the caches with the sums."""

MIN_BLOCK_TILES: Final = 64
"""Least number of tiles of a block, even if their pixels take more bytes: each block reads and writes all sums."""

MAX_BLOCK_TILES: Final = 128
"""Upper bound on the tiles of a block: more save little time and take scratch of each thread."""

MIN_SHARED_BLOCK_TILES: Final = 32
"""Tiles of a block, if there are so few that threads would have no work."""

MAX_PRETRANSFORMED_TILES: Final = 512
"""Upper bound on the tiles of one block that is transformed before: a longer chain loses digits."""

MAX_PARTS: Final = 8
"""Number of parts of all tiles, if sums are small; half as many if they are larger."""


MAX_ITEM_PIXEL_BYTES: Final = 1 << 20
"""Bytes of the transformed pixels of a work item, if they are transformed before."""

MAX_ITEM_CHANNELS: Final = 64
"""Upper bound on the channels of such a work item."""

ITEM_CHANNEL_MULTIPLE: Final = 16
"""The channels of such a work item are a multiple of this number; as many are computed again together."""


@dataclass(frozen=True)
class FilterPlan:
    """The partition of the gradient.

    Attributes:
        shape: sizes of the gradient.
        item: bytes of an element.
        blocks: number of blocks of tiles.
        parts: number of parts of blocks, whose sums are added at the end.
        channels: input channels of a work item.
        rows: upper bound on the channels of a tile.
        vectors: vectors of a tile.
        steps: cycles of all products at one position, for each tile of the image.
        wanted: number of work items that gives every thread a share.
        elements: rows of operands for a tile, or for one of a pair of images.
    """

    shape: FilterGradient
    item: int
    blocks: int
    parts: int
    channels: int
    rows: int
    vectors: int
    steps: float
    wanted: int
    elements: int = 1

    @property
    def tiling(self) -> Tiling:
        """Its tiles."""
        rows, columns = (
            ImageAxis(side.source, side.before, side.pixels) for side in (self.shape.rows, self.shape.columns)
        )
        return Tiling(self.shape.images, rows, columns, self.shape.of_pairs)

    @property
    def is_near(self) -> bool:
        """True if the sums of all positions fit into the caches, so that work items are parts of all tiles."""
        return POSITIONS * self.shape.deep * self.shape.wide * self.item <= MAX_CACHED_FILTER_BYTES

    @property
    def most(self) -> int:
        """Tiles of the largest block."""
        return -(-self.tiling.tiles // self.blocks)

    @property
    def few(self) -> int:
        """Tiles of the smallest block."""
        return self.tiling.tiles // self.blocks

    @property
    def width(self) -> int:
        """Channels of a panel."""
        return self.vectors * self.shape.lanes

    @property
    def panels(self) -> int:
        """Panels of the result's channels."""
        return -(-self.shape.wide // self.width)

    @property
    def ranges(self) -> int:
        """Number of ranges of panels, if work items are parts of all tiles; a work item has a part and a range.

        All ranges of a part transform the same pixels.
        """
        return min(max(self.wanted // self.parts, 1), self.panels)

    @property
    def work_items(self) -> int:
        """Number of parts of the input channels."""
        return -(-self.shape.deep // self.channels)

    @property
    def tiles_of_rows(self) -> list[tuple[int, int]]:
        """Sizes of tiles, and their numbers, in a work item."""
        return shares(self.channels, self.rows)

    @property
    def laid(self) -> TransformedLayout:
        """The layout of transformed pixels: those of the channels of a work item are contiguous."""
        line = CACHE_LINE_BYTES // self.item
        tile = self.channels + (line if self.channels * self.item % CONFLICT_STRIDE_BYTES == 0 else 0)
        channels, position = self.shape.deep, self.most * self.elements * tile + line
        return TransformedLayout(channels, self.shape.lanes, tile, position, self.channels)

    @property
    def gradient(self) -> int:
        """Stride of the positions of a panel of transformed gradients, in elements."""
        return self.most * self.elements * self.width + CACHE_LINE_BYTES // self.item

    @property
    def gradients(self) -> int:
        """Elements of all transformed gradients."""
        return self.panels * POSITIONS * self.gradient

    # Cost, in cycles.

    @property
    def cycles(self) -> float:
        """The cycles of the whole gradient."""
        vectors = [-(-channels // self.shape.lanes) for channels in (self.shape.deep, self.shape.wide)]
        begun = self.blocks * (STEPS_PER_ADDED_TILE if self.is_near else STEPS_PER_TILE)
        products = POSITIONS * (self.tiling.tiles + begun) * self.steps
        back = (
            self.shape.deep
            * vectors[1]
            * (GRADIENT_TRANSFORM_CYCLES + (POSITIONS * PART_GRADIENT_CYCLES * self.parts if self.is_near else 0))
        )
        return products + self.of_tiles + back

    @property
    def of_tiles(self) -> float:
        """The cycles of the transforms of pixels and gradients."""
        vectors = [-(-channels // self.shape.lanes) for channels in (self.shape.deep, self.shape.wide)]
        tiles = self.tiling.tiles * (self.shape.of_pairs + 1)
        return tiles * (vectors[0] * PIXEL_TRANSFORM_CYCLES + vectors[1] * OUTPUT_TRANSFORM_CYCLES)


def planned_filters(target: Target, shape: FilterGradient) -> FilterPlan:
    """Return the partition of the gradient of a filter."""
    item = shape.element.bits // 8
    one = FilterPlan(shape, item, 1, 1, shape.deep, 1, 1, 0, target.wanted_items(WANTED_ITEMS))
    tiles = one.tiling.tiles
    blocks = parts = 1
    channels, is_shared = shape.deep, one.wanted > WANTED_ITEMS
    if one.is_near:
        parts = (
            MAX_PARTS if POSITIONS * shape.deep * shape.wide * item <= MAX_CACHED_FILTER_BYTES // 2 else MAX_PARTS // 2
        )
        blocks = -(
            -tiles // min(max(BLOCK_TILE_CHANNELS // max(shape.deep, shape.wide), MIN_BLOCK_TILES), MAX_BLOCK_TILES)
        )
        blocks = max(blocks, min(MAX_PARTS // 2, tiles // MIN_SHARED_BLOCK_TILES))
        parts = min(parts, max(blocks // 2, 2), blocks)
        blocks = min(-(-blocks // parts) * parts, tiles)
    else:
        most = min(
            max(
                MAX_ITEM_PIXEL_BYTES // (POSITIONS * tiles * item) // ITEM_CHANNEL_MULTIPLE * ITEM_CHANNEL_MULTIPLE,
                ITEM_CHANNEL_MULTIPLE,
            ),
            MAX_ITEM_CHANNELS,
            _up(-(-shape.deep // one.wanted), ITEM_CHANNEL_MULTIPLE) if is_shared else MAX_ITEM_CHANNELS,
        )
        channels = next(count for count in range(most, 0, -ITEM_CHANNEL_MULTIPLE) if shape.deep % count == 0)
    costs = tile_costs(target, shape.lanes, channels, shape.wide, of_pairs=shape.of_pairs)
    rows, vectors = max(
        (tile for tile in costs if costs[tile] <= MAX_WIDE_TILE_SLOWDOWN * min(costs.values())),
        key=lambda tile: tile[1],
    )
    if is_shared and one.is_near:  # panels for all threads
        most = max(shape.wide // (shape.lanes * -(-one.wanted // parts)), 1)
        rows, vectors = min((tile for tile in costs if tile[1] <= most), key=lambda tile: costs[tile])
    steps = costs[rows, vectors] * -(-shape.deep // channels)
    if shape.of_pairs and target.chains_pairs:
        kept = chained_tiles(shape.lanes, channels, shape.wide)
        rows, vectors = min((tile for tile in kept if tile[1] <= vectors), key=lambda tile: kept[tile])
    elements = elements_of_pair(target) if shape.of_pairs else 1
    one = replace(one, rows=rows, vectors=vectors, elements=elements)
    return replace(one, blocks=blocks, parts=parts, channels=channels, steps=steps)


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def are_taken(shape: FilterGradient) -> bool:
    """Return True if Winograd's filtering can compute a gradient, and there is a partition of it."""
    plain = shape.element.bits == 32 and shape.groups == 1 and _goes_on(shape.rows) and _goes_on(shape.columns)
    images = shape.images * (shape.of_pairs + 1)
    tiles = images * -(-shape.rows.pixels // 2) * -(-shape.columns.pixels // 2)
    near = POSITIONS * shape.deep * shape.wide * shape.element.bits // 8 <= MAX_CACHED_FILTER_BYTES
    return plain and (near or (tiles <= MAX_PRETRANSFORMED_TILES and shape.deep % ITEM_CHANNEL_MULTIPLE == 0))


def _goes_on(side: FilterAxis) -> bool:
    return (side.window, side.stride, side.dilation) == (FILTER_TAPS, 1, 1)

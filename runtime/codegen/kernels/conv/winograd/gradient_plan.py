"""How the gradient of a filter by Winograd's filtering is cut, and what it costs.

Where sums of all positions stay near, a unit has a part of all tiles, which it transforms block by block. Where they do
not, and tiles are few, all tiles are transformed before, and a unit has some channels of the input.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from runtime.codegen.costs import (
    GRADIENT_TRANSFORM_CYCLES,
    OUTPUT_TRANSFORM_CYCLES,
    PART_GRADIENT_CYCLES,
    PIXEL_TRANSFORM_CYCLES,
    STEPS_PER_ADDED_TILE,
    STEPS_PER_TILE,
    WIDE_TILE_GAIN,
)
from runtime.codegen.kernels.conv.filter_plan import FilterAxis, FilterGradient
from runtime.codegen.kernels.conv.plan import CONFLICT_STRIDE_BYTES
from runtime.codegen.kernels.conv.winograd.plan import MAX_CACHED_FILTER_BYTES
from runtime.codegen.kernels.conv.winograd.tiles import ImageAxis, Tiling, TransformedLayout
from runtime.codegen.kernels.conv.winograd.transforms import FILTER_TAPS, POSITIONS
from runtime.codegen.kernels.matmul.plan import shares, tile_costs
from runtime.codegen.machine import CACHE_LINE_BYTES, Target

BLOCK_TILE_CHANNELS: Final = 8192
"""Pairs of a tile and a channel in a block, whose transformed pixels and gradients stay near with the sums."""

MIN_BLOCK_TILES: Final = 64
"""Tiles of a block, though they be larger: sums are read and written once for each block."""

MAX_BLOCK_TILES: Final = 128
"""Tiles of a block: more save little time, and take scratch of each thread."""

MIN_SHARED_BLOCK_TILES: Final = 32
"""Tiles of a block, if there are so few that threads would have nothing to share."""

MAX_PRETRANSFORMED_TILES: Final = 512
"""Tiles that are one block, if they are transformed before: a longer chain loses digits."""

MAX_PARTS: Final = 8
"""Of all tiles, if sums are small; half as many of larger ones."""


MAX_ITEM_PIXEL_BYTES: Final = 1 << 20
"""Bytes of the transformed pixels that a unit has, if they are transformed before."""

MAX_ITEM_CHANNELS: Final = 64
"""Of such a unit, at most."""

ITEM_CHANNEL_MULTIPLE: Final = 16
"""Channels of such a unit are a multiple of."""


@dataclass(frozen=True)
class FilterPlan:
    """How it is cut.

    Attributes:
        shape: of which it is.
        item: bytes of an element.
        blocks: of tiles.
        parts: of blocks, whose sums are added at the end.
        channels: of the input, in a unit.
        rows: channels of a tile, at most.
        vectors: of a tile.
        steps: cycles for each tile of the image that all products take at one position.
    """

    shape: FilterGradient
    item: int
    blocks: int
    parts: int
    channels: int
    rows: int
    vectors: int
    steps: float

    @property
    def tiling(self) -> Tiling:
        """Its tiles."""
        rows, columns = (
            ImageAxis(side.source, side.before, side.pixels) for side in (self.shape.rows, self.shape.columns)
        )
        return Tiling(self.shape.images, rows, columns)

    @property
    def is_near(self) -> bool:
        """Whether sums of all positions stay near, and units are parts of all tiles."""
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
        """Of the result's channels."""
        return -(-self.shape.wide // self.width)

    @property
    def work_items(self) -> int:
        """Into which the input's channels are divided."""
        return -(-self.shape.deep // self.channels)

    @property
    def tiles_of_rows(self) -> list[tuple[int, int]]:
        """Sizes of tiles, and how many there are of each, in a unit."""
        return shares(self.channels, self.rows)

    @property
    def laid(self) -> TransformedLayout:
        """Transformed pixels: those of a unit's channels beside each other."""
        line = CACHE_LINE_BYTES // self.item
        tile = self.channels + (line if self.channels * self.item % CONFLICT_STRIDE_BYTES == 0 else 0)
        return TransformedLayout(self.shape.deep, self.shape.lanes, tile, self.most * tile + line, self.channels)

    @property
    def gradient(self) -> int:
        """Elements from a position to the next, of a panel of transformed gradients of the result."""
        return self.most * self.width + CACHE_LINE_BYTES // self.item

    @property
    def gradients(self) -> int:
        """Elements of all of them."""
        return self.panels * POSITIONS * self.gradient

    # What it costs, in cycles.

    @property
    def cycles(self) -> float:
        """All of it."""
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
        """To transform pixels and gradients."""
        vectors = [-(-channels // self.shape.lanes) for channels in (self.shape.deep, self.shape.wide)]
        return self.tiling.tiles * (vectors[0] * PIXEL_TRANSFORM_CYCLES + vectors[1] * OUTPUT_TRANSFORM_CYCLES)


def planned_filters(target: Target, shape: FilterGradient) -> FilterPlan:
    """Cut the gradient of a filter."""
    item = shape.element.bits // 8
    one = FilterPlan(shape, item, 1, 1, shape.deep, 1, 1, 0)
    tiles = one.tiling.tiles
    blocks = parts = 1
    channels = shape.deep
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
        )
        channels = next(count for count in range(most, 0, -ITEM_CHANNEL_MULTIPLE) if shape.deep % count == 0)
    costs = tile_costs(target, shape.lanes, channels, shape.wide)
    rows, vectors = max(
        (tile for tile in costs if costs[tile] <= WIDE_TILE_GAIN * min(costs.values())),
        key=lambda tile: tile[1],
    )
    steps = costs[rows, vectors] * -(-shape.deep // channels)
    return replace(one, blocks=blocks, parts=parts, channels=channels, rows=rows, vectors=vectors, steps=steps)


def are_taken(shape: FilterGradient) -> bool:
    """Whether a gradient is of this kind, and there is a way to cut it."""
    plain = shape.element.bits == 32 and shape.groups == 1 and _goes_on(shape.rows) and _goes_on(shape.columns)
    tiles = shape.images * -(-shape.rows.pixels // 2) * -(-shape.columns.pixels // 2)
    near = POSITIONS * shape.deep * shape.wide * shape.element.bits // 8 <= MAX_CACHED_FILTER_BYTES
    return plain and (near or (tiles <= MAX_PRETRANSFORMED_TILES and shape.deep % ITEM_CHANNEL_MULTIPLE == 0))


def _goes_on(side: FilterAxis) -> bool:
    return (side.window, side.stride, side.dilation) == (FILTER_TAPS, 1, 1)

"""The partition and the cost of Winograd's filtering: tiles of 2 x 2 output pixels in blocks, panels, and work items.

The choice of this algorithm depends on no size of a cache, and neither does any bit of finite results. If a block has a
NaN or Inf in a panel of the nominal target, this panel of the block is computed again as a whole. So the partition into
blocks and nominal panels does set bits then, and depends on no number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from runtime.codegen.costs import (
    CACHED_FILTER_TRANSFORM_CYCLES,
    OUTPUT_TRANSFORM_CYCLES,
    PIXEL_TRANSFORM_CYCLES,
    STEPS_PER_TILE,
    TRANSPOSED_FILTER_CYCLES,
    UNCACHED_FILTER_BYTES_PER_CYCLE,
    UNCACHED_FILTER_TRANSFORM_CYCLES,
)
from runtime.codegen.kernels.conv.axes import Axis
from runtime.codegen.kernels.conv.plan import CONFLICT_STRIDE_BYTES, MAX_CHAIN_DEPTH, WANTED_ITEMS, ConvShape
from runtime.codegen.kernels.conv.winograd.tiles import ImageAxis, Tiling, TransformedLayout
from runtime.codegen.kernels.conv.winograd.transforms import FILTER_TAPS, POSITIONS
from runtime.codegen.kernels.matmul.plan import tile_costs, tile_shape
from runtime.codegen.kernels.pair_chains import chained_tiles, elements_of_pair
from runtime.codegen.machine import CACHE_LINE_BYTES, Target

BLOCK_PIXEL_BYTES: Final = 768 << 10
"""Bytes of the transformed pixels of a block: they fit into the second-level cache with their products."""

MIN_BLOCK_TILES: Final = 64
"""Least number of tiles of a block, even if their pixels take more bytes: each block reads all transformed filters."""

MIN_SHARED_BLOCK_TILES: Final = 16
"""Least number of tiles of a block, if there are few images and the filters fit into the caches."""

MAX_NOTED_PANELS: Final = 62
"""Panels up to which a work item notes in a word which of them have a NaN or Inf; with more, it notes if any has."""

MAX_CACHED_FILTER_BYTES: Final = 1 << 20
"""Bytes of transformed filters up to which they fit into the caches, so that reading them again costs little."""


@dataclass(frozen=True)
class WinogradPlan:
    """The partition of a convolution.

    Attributes:
        shape: the convolution.
        lanes: lanes of a vector.
        item: bytes of an element.
        blocks: number of blocks of tiles, each of which is transformed and multiplied together.
        rows: number of tiles that are multiplied at once.
        width: channels of a panel.
        panels_per_nominal: number of panels that are as wide as one of the nominal target.
        steps: cycles of all products of a block at one position, for each source channel.
        wanted: number of work items that gives every thread a share.
        elements: elements of a source channel, or of a pair of them, in operands.
    """

    shape: ConvShape
    lanes: int
    item: int
    blocks: int
    rows: int
    width: int
    panels_per_nominal: int
    steps: float
    wanted: int
    elements: int = 1

    @property
    def tiling(self) -> Tiling:
        """Its tiles."""
        rows, columns = (
            ImageAxis(axis.source, axis.before - axis.phases[0].start, axis.pixels)
            for axis in (self.shape.rows, self.shape.columns)
        )
        return Tiling(self.shape.images, rows, columns)

    @property
    def tiles(self) -> int:
        """The number of tiles."""
        return self.tiling.tiles

    @property
    def most(self) -> int:
        """Tiles of the largest block."""
        return -(-self.tiles // self.blocks)

    @property
    def few(self) -> int:
        """Tiles of the smallest block."""
        return self.tiles // self.blocks

    @property
    def panels(self) -> int:
        """Panels of the result's channels."""
        return -(-self.shape.wide // self.width)

    @property
    def nominal_panels(self) -> int:
        """Panels of the nominal target."""
        return -(-self.panels // self.panels_per_nominal)

    @property
    def parts(self) -> int:
        """Number of parts of the nominal panels; a work item has one part, for one block."""
        wanted = self.wanted if self.nominal_panels <= MAX_NOTED_PANELS else WANTED_ITEMS
        return 1 if self.is_near else min(-(-wanted // self.blocks), self.nominal_panels)

    @property
    def is_near(self) -> bool:
        """True if transformed filters fit into the caches, so that reading them again costs little."""
        return POSITIONS * self.shape.deep * self.shape.wide * self.item <= MAX_CACHED_FILTER_BYTES

    # The layout of the operands: positions are one cache line farther apart than necessary, so that the 16
    # vectors of a tile do not compete for one set of the first-level cache.

    @property
    def deep(self) -> int:
        """Elements of the depth of an operand."""
        return self.shape.deep * self.elements

    @property
    def tile(self) -> int:
        """Stride of tiles of transformed pixels, in elements."""
        deep = self.deep
        return deep + (CACHE_LINE_BYTES // self.item if deep * self.item % CONFLICT_STRIDE_BYTES == 0 else 0)

    @property
    def position(self) -> int:
        """Stride of their positions."""
        return self.most * self.tile + CACHE_LINE_BYTES // self.item

    @property
    def laid(self) -> TransformedLayout:
        """The layout of transformed pixels, counted in numbers: a word has the place of two."""
        each, channels = self.numbers, self.shape.channels
        tile, position = self.tile * each, self.position * each
        return TransformedLayout(channels, self.lanes, tile, position, channels, self.shape.of_pairs)

    @property
    def numbers(self) -> int:
        """Numbers in an element of an operand: 2 in a word."""
        return 2 if self.shape.of_pairs and self.elements == 1 else 1

    @property
    def of_channels(self) -> WinogradPlan:
        """This partition, for a convolution that computes with single channels."""
        return replace(self, shape=self.shape._replace(deep=self.shape.channels, of_pairs=False), elements=1)

    @property
    def block(self) -> int:
        """Elements of the transformed pixels of a block."""
        return POSITIONS * self.position

    @property
    def sums(self) -> int:
        """Stride of the positions of the products of a block with a panel, in elements."""
        return self.most * self.width + CACHE_LINE_BYTES // self.item

    @property
    def panel(self) -> int:
        """Elements of a panel of transformed filters, of all positions."""
        return POSITIONS * self.deep * self.width

    @property
    def filters(self) -> int:
        """Elements of all transformed filters."""
        return self.panels * self.panel

    # Cost, in cycles.

    @property
    def cycles(self) -> float:
        """The cycles of the whole convolution."""
        products = POSITIONS * (self.shape.deep + STEPS_PER_TILE) * self.blocks * self.steps
        read = 0 if self.is_near else self.blocks * self.filters * self.item / UNCACHED_FILTER_BYTES_PER_CYCLE
        results = self.tiles * -(-self.shape.wide // self.lanes) * OUTPUT_TRANSFORM_CYCLES
        return self.of_filters + self.of_pixels + max(products, read) + results

    @property
    def of_filters(self) -> float:
        """The cycles of the transform of filters."""
        each = (
            CACHED_FILTER_TRANSFORM_CYCLES if self.is_near else UNCACHED_FILTER_TRANSFORM_CYCLES
        ) + TRANSPOSED_FILTER_CYCLES * self.shape.is_filter_transposed
        return self.shape.channels * -(-self.shape.wide // self.lanes) * each

    @property
    def of_pixels(self) -> float:
        """The cycles of the transform of pixels."""
        return self.tiles * -(-self.shape.channels // self.lanes) * PIXEL_TRANSFORM_CYCLES


def plan_winograd(target: Target, bits: int, shape: ConvShape) -> WinogradPlan:
    """Return the partition of a convolution of elements of `bits` bits."""
    lanes, item = target.lanes(bits), bits // 8
    one = WinogradPlan(shape, lanes, item, 1, 1, lanes, 1, 0, target.wanted_items(WANTED_ITEMS))
    blocks = -(-one.tiles // max(BLOCK_PIXEL_BYTES // (POSITIONS * shape.deep * item), MIN_BLOCK_TILES))
    if blocks > WANTED_ITEMS:
        blocks = min(-(-blocks // WANTED_ITEMS) * WANTED_ITEMS, one.tiles)
    elif one.is_near:
        blocks = min(WANTED_ITEMS, max(one.tiles // MIN_SHARED_BLOCK_TILES, 1))
    few = one.tiles // blocks
    nominal_lanes = target.nominal.lanes(bits)
    nominal_width = tile_shape(target.nominal, nominal_lanes, few, shape.wide)[1] * nominal_lanes
    costs = tile_costs(target, lanes, few, shape.wide, of_pairs=shape.of_pairs)
    steps = min(cost for tile, cost in costs.items() if nominal_width % (tile[1] * lanes) == 0)
    if shape.of_pairs and target.chains_pairs:
        costs = chained_tiles(lanes, few, shape.wide)
    tiles = [tile for tile in costs if nominal_width % (tile[1] * lanes) == 0]
    rows, vectors = min(tiles, key=lambda tile: costs[tile])
    width = vectors * lanes
    return replace(
        one,
        blocks=blocks,
        rows=rows,
        width=width,
        panels_per_nominal=nominal_width // width,
        steps=steps,
        elements=elements_of_pair(target) if shape.of_pairs else 1,
    )


def is_taken(bits: int, shape: ConvShape) -> bool:
    """Return True if Winograd's filtering can compute a convolution; for float64 it would lose too many digits."""
    return (
        bits == 32
        and shape.groups == 1
        and shape.channels <= MAX_CHAIN_DEPTH
        and _goes_on(shape.rows)
        and _goes_on(shape.columns)
    )


def _goes_on(axis: Axis) -> bool:
    return len(axis.phases) == 1 and (axis.step, axis.apart, axis.every, axis.phases[0].taps) == (1, 1, 1, FILTER_TAPS)

"""How Winograd's filtering is cut: tiles of 2 x 2 places in blocks, panels of channels, units; and what it costs.

No bit depends on a size of a cache, nor does which form is chosen; where there are NaN or Inf, blocks are seen in bits.
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
from runtime.codegen.kernels.matmul.plan import tile_cycles, tile_shape
from runtime.codegen.machine import CACHE_LINE_BYTES, Target

BLOCK_PIXEL_BYTES: Final = 768 << 10
"""Bytes of the transformed pixels of a block: they stay in the second cache with what is made of them."""

MIN_BLOCK_TILES: Final = 64
"""Tiles of a block, though they be larger: transformed filters are read once for each block."""

MIN_SHARED_BLOCK_TILES: Final = 16
"""Tiles of a block where images are few and filters stay near."""

MAX_CACHED_FILTER_BYTES: Final = 1 << 20
"""Bytes of transformed filters that stay near, so that to read them often costs little."""


@dataclass(frozen=True)
class WinogradPlan:
    """How a convolution is cut.

    Attributes:
        shape: of which it is.
        lanes: of a vector.
        item: bytes of an element.
        blocks: of tiles, which are transformed and multiplied together.
        rows: tiles that are multiplied at once.
        width: channels of a panel.
        steps: cycles for each channel of the source that all products of a block take at one position.
    """

    shape: ConvShape
    lanes: int
    item: int
    blocks: int
    rows: int
    width: int
    steps: float

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
        """How many there are."""
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
        """Of the result's channels."""
        return -(-self.shape.wide // self.width)

    @property
    def parts(self) -> int:
        """Into which panels are divided; a unit has one, of one block."""
        return 1 if self.is_near else min(-(-WANTED_ITEMS // self.blocks), self.panels)

    @property
    def is_near(self) -> bool:
        """Whether transformed filters stay near, so that to read them once more costs little."""
        return POSITIONS * self.shape.deep * self.shape.wide * self.item <= MAX_CACHED_FILTER_BYTES

    # How the operands of the products lie: by positions a line of a cache more apart than need be, so that the 16
    # vectors of a tile do not fall on each other in the nearest cache.

    @property
    def tile(self) -> int:
        """Elements from a tile of transformed pixels to the next."""
        deep = self.shape.deep
        return deep + (CACHE_LINE_BYTES // self.item if deep * self.item % CONFLICT_STRIDE_BYTES == 0 else 0)

    @property
    def position(self) -> int:
        """Likewise from a position to the next."""
        return self.most * self.tile + CACHE_LINE_BYTES // self.item

    @property
    def laid(self) -> TransformedLayout:
        """Transformed pixels."""
        return TransformedLayout(self.shape.deep, self.lanes, self.tile, self.position, self.shape.deep)

    @property
    def block(self) -> int:
        """Elements of the transformed pixels of a block."""
        return POSITIONS * self.position

    @property
    def sums(self) -> int:
        """Elements from a position to the next, of the products of a block with a panel."""
        return self.most * self.width + CACHE_LINE_BYTES // self.item

    @property
    def panel(self) -> int:
        """Elements of a panel of transformed filters, of all positions."""
        return POSITIONS * self.shape.deep * self.width

    @property
    def filters(self) -> int:
        """Elements of all of them."""
        return self.panels * self.panel

    # What it costs, in cycles.

    @property
    def cycles(self) -> float:
        """All of it."""
        products = POSITIONS * (self.shape.deep + STEPS_PER_TILE) * self.blocks * self.steps
        read = 0 if self.is_near else self.blocks * self.filters * self.item / UNCACHED_FILTER_BYTES_PER_CYCLE
        results = self.tiles * -(-self.shape.wide // self.lanes) * OUTPUT_TRANSFORM_CYCLES
        return self.of_filters + self.of_pixels + max(products, read) + results

    @property
    def of_filters(self) -> float:
        """To transform the filters."""
        each = (
            CACHED_FILTER_TRANSFORM_CYCLES if self.is_near else UNCACHED_FILTER_TRANSFORM_CYCLES
        ) + TRANSPOSED_FILTER_CYCLES * self.shape.is_filter_transposed
        return self.shape.deep * -(-self.shape.wide // self.lanes) * each

    @property
    def of_pixels(self) -> float:
        """To transform the pixels."""
        return self.tiles * -(-self.shape.deep // self.lanes) * PIXEL_TRANSFORM_CYCLES


def plan_winograd(target: Target, bits: int, shape: ConvShape) -> WinogradPlan:
    """Cut a convolution of elements of so many bits."""
    lanes, item = target.lanes(bits), bits // 8
    one = WinogradPlan(shape, lanes, item, 1, 1, lanes, 0)
    blocks = -(-one.tiles // max(BLOCK_PIXEL_BYTES // (POSITIONS * shape.deep * item), MIN_BLOCK_TILES))
    if blocks > WANTED_ITEMS:
        blocks = min(-(-blocks // WANTED_ITEMS) * WANTED_ITEMS, one.tiles)
    elif one.is_near:
        blocks = min(WANTED_ITEMS, max(one.tiles // MIN_SHARED_BLOCK_TILES, 1))
    few = one.tiles // blocks
    rows, vectors = tile_shape(target, lanes, few, shape.wide)
    steps = tile_cycles(target, lanes, few, shape.wide)
    return replace(one, blocks=blocks, rows=rows, width=vectors * lanes, steps=steps)


def is_taken(bits: int, shape: ConvShape) -> bool:
    """Whether a convolution is of this kind; float64 is asked for its digits, some of which this costs."""
    return (
        bits == 32
        and shape.groups == 1
        and shape.deep <= MAX_CHAIN_DEPTH
        and _goes_on(shape.rows)
        and _goes_on(shape.columns)
    )


def _goes_on(axis: Axis) -> bool:
    return len(axis.phases) == 1 and (axis.step, axis.apart, axis.every, axis.phases[0].taps) == (1, 1, 1, FILTER_TAPS)

"""How Winograd's filtering is cut: tiles of 2 x 2 places in blocks, panels of channels, units; and what it costs.

No bit depends on a size of a cache, nor does which form is chosen; where there are NaN or Inf, blocks are seen in bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from runtime.codegen.kernels.conv.axes import Axis
from runtime.codegen.kernels.conv.plan import CHAIN, CONFLICTS, WANTED, Shape
from runtime.codegen.kernels.conv.winograd.tiles import Laid, Line, Tiling
from runtime.codegen.kernels.conv.winograd.transforms import POSITIONS, TAPS
from runtime.codegen.kernels.matmul.plan import tile_cycles, tile_shape
from runtime.codegen.machine import LINE, Target

BLOCK: Final = 768 << 10
"""Bytes of the transformed pixels of a block: they stay in the second cache with what is made of them."""

LEAST: Final = 64
"""Tiles of a block, though they be larger: transformed filters are read once for each block."""

FEWEST: Final = 16
"""Tiles of a block where images are few and filters stay near."""

NEAR: Final = 1 << 20
"""Bytes of transformed filters that stay near, so that to read them often costs little."""

BEGUN: Final = 4
"""Steps of the depth that beginning a tile and storing it are worth."""

PIXELS: Final = 60
"""Cycles in which a vector of channels of a tile is transformed."""

RESULTS: Final = 40
"""Likewise back."""

NEAR_FILTERS: Final = 100
"""Likewise of a filter."""

FAR_FILTERS: Final = 180
"""Likewise, if filters do not stay near."""

TURNED: Final = 60
"""What more it takes if the filter's channels are in exchange."""

BYTES: Final = 8
"""Of transformed filters that are read in a cycle, if they do not stay near."""

GAIN: Final = 1.1
"""Times as many cycles must take what is left for it."""


@dataclass(frozen=True)
class Plan:
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

    shape: Shape
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
            Line(axis.source, axis.before - axis.phases[0].start, axis.places)
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
        return 1 if self.is_near else min(-(-WANTED // self.blocks), self.panels)

    @property
    def is_near(self) -> bool:
        """Whether transformed filters stay near, so that to read them once more costs little."""
        return POSITIONS * self.shape.deep * self.shape.wide * self.item <= NEAR

    # How the operands of the products lie: by positions a line of a cache more apart than need be, so that the 16
    # vectors of a tile do not fall on each other in the nearest cache.

    @property
    def tile(self) -> int:
        """Elements from a tile of transformed pixels to the next."""
        deep = self.shape.deep
        return deep + (LINE // self.item if deep * self.item % CONFLICTS == 0 else 0)

    @property
    def position(self) -> int:
        """Likewise from a position to the next."""
        return self.most * self.tile + LINE // self.item

    @property
    def laid(self) -> Laid:
        """Transformed pixels."""
        return Laid(self.shape.deep, self.lanes, self.tile, self.position, self.shape.deep)

    @property
    def block(self) -> int:
        """Elements of the transformed pixels of a block."""
        return POSITIONS * self.position

    @property
    def sums(self) -> int:
        """Elements from a position to the next, of the products of a block with a panel."""
        return self.most * self.width + LINE // self.item

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
        products = POSITIONS * (self.shape.deep + BEGUN) * self.blocks * self.steps
        read = 0 if self.is_near else self.blocks * self.filters * self.item / BYTES
        results = self.tiles * -(-self.shape.wide // self.lanes) * RESULTS
        return self.of_filters + self.of_pixels + max(products, read) + results

    @property
    def of_filters(self) -> float:
        """To transform the filters."""
        each = (NEAR_FILTERS if self.is_near else FAR_FILTERS) + TURNED * self.shape.turned
        return self.shape.deep * -(-self.shape.wide // self.lanes) * each

    @property
    def of_pixels(self) -> float:
        """To transform the pixels."""
        return self.tiles * -(-self.shape.deep // self.lanes) * PIXELS


def planned(target: Target, bits: int, shape: Shape) -> Plan:
    """Cut a convolution of elements of so many bits."""
    lanes, item = target.lanes(bits), bits // 8
    one = Plan(shape, lanes, item, 1, 1, lanes, 0)
    blocks = -(-one.tiles // max(BLOCK // (POSITIONS * shape.deep * item), LEAST))
    if blocks > WANTED:
        blocks = min(-(-blocks // WANTED) * WANTED, one.tiles)
    elif one.is_near:
        blocks = min(WANTED, max(one.tiles // FEWEST, 1))
    few = one.tiles // blocks
    rows, vectors = tile_shape(target, lanes, few, shape.wide)
    steps = tile_cycles(target, lanes, few, shape.wide)
    return replace(one, blocks=blocks, rows=rows, width=vectors * lanes, steps=steps)


def is_taken(bits: int, shape: Shape) -> bool:
    """Whether a convolution is of this kind; float64 is asked for its digits, some of which this costs."""
    return bits == 32 and shape.groups == 1 and shape.deep <= CHAIN and _goes_on(shape.rows) and _goes_on(shape.columns)


def _goes_on(axis: Axis) -> bool:
    return len(axis.phases) == 1 and (axis.step, axis.apart, axis.every, axis.phases[0].taps) == (1, 1, 1, TAPS)

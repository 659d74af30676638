"""How the gradient of a convolution's filter is cut: tiles of rows of the filter, panels, and blocks of places."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from runtime.engines.native.convolution.borders import Border
from runtime.engines.native.convolution.plan import CONFLICTS, WANTED
from runtime.engines.native.ir import Type
from runtime.engines.native.product.plan import MOST_ROWS, shares
from runtime.engines.native.target import Target

DEPTH: Final = 256
"""Places in a block."""

FEW: Final = 4
"""Below so many channels a tile has rows for several taps."""

TOGETHER: Final = 32
"""Images of a block whose lines are short, at most."""

SHORT: Final = 16
"""Places of a line that is short."""

MANY: Final = 256
"""Rows of the filter: so many, and copying what they are multiplied with costs little."""

UNEVEN: Final = 0.03
"""What a second size of tiles costs, as a share: it is compiled too."""


class Side(NamedTuple):
    """An axis of the images: extents, and how the window goes along it."""

    source: int
    places: int
    window: int
    stride: int
    before: int
    dilation: int

    def seen(self, tap: int) -> tuple[int, int]:
        """The first place at which a tap is inside of the image, and the one after the last."""
        offset = self.before - tap * self.dilation
        first = max(-(-offset // self.stride), 0)
        stop = min((self.source - 1 + offset) // self.stride + 1, self.places)
        return min(first, self.places), max(stop, min(first, self.places))

    def span(self, places: int) -> int:
        """How much of an image with its border so many places see."""
        return (places - 1) * self.stride + (self.window - 1) * self.dilation + 1


@dataclass(frozen=True)
class Filters:
    """The gradient of a filter: what it is of, and how it is cut.

    Attributes:
        element: of all operands.
        images: how many.
        rows, columns: the axes of the images.
        groups: of channels.
        deep: channels of a group of the input.
        wide: channels of a group of the result.
        lanes: of a vector.
        vectors: of a tile.
        most: rows of a tile, at most.
    """

    element: Type
    images: int
    rows: Side
    columns: Side
    groups: int
    deep: int
    wide: int
    lanes: int
    vectors: int = 1
    most: int = 1

    def planned(self, target: Target) -> Filters:
        """With the tile that takes the fewest cycles."""
        costs: dict[Filters, float] = {}
        for vectors, most in MOST_ROWS[target.registers, target.fma].items():
            made = replace(self, vectors=vectors, most=most)
            tiles = [(size, count * made.turns) for size, count in made.tiles]
            cycles = sum(n * max(r * vectors / 2, (r + vectors) / 1.8, 4) for r, n in tiles)
            costs[made] = cycles * made.across * (1 + UNEVEN * (len(tiles) - 1))
        return min(costs, key=lambda made: costs[made])

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
        """Of all groups."""
        return self.groups * self.across

    @property
    def size(self) -> int:
        """Elements of the filter."""
        return self.rows.window * self.columns.window * self.deep * self.groups * self.wide

    @property
    def is_merged(self) -> bool:
        """Whether a tile has rows for several taps."""
        return self.deep < FEW and self.deep * self.columns.window <= self.most

    @property
    def tiles(self) -> list[tuple[int, int]]:
        """Rows of tiles and how many there are: of the filter if they are merged, else of each tap."""
        if not self.is_merged:
            return shares(self.deep, self.most)
        line = self.deep * self.columns.window
        return [(size * line, count) for size, count in shares(self.rows.window, self.most // line)]

    @property
    def turns(self) -> int:
        """How often all tiles are made for a block of places."""
        return 1 if self.is_merged else self.rows.window * self.columns.window

    @property
    def block(self) -> tuple[int, int]:
        """Images and rows of places in a block."""
        together = self.together
        if together > 1:
            return together, min(max(2 * DEPTH // (together * self.columns.places), 1), self.rows.places)
        image = self.rows.places * self.columns.places
        if image <= DEPTH:
            return min(DEPTH // image, self.images), self.rows.places
        return 1, max(DEPTH // self.columns.places, 1)

    @property
    def together(self) -> int:
        """Images whose pixels of one place lie beside each other in a copy, so that no loop is short; 1 for no copy."""
        if self.is_merged or self.columns.places > SHORT or self.turns == 1:
            return 1
        return max(count for count in range(1, TOGETHER + 1) if self.images % count == 0)

    @property
    def packs(self) -> bool:
        """Whether a panel of the gradient of the result is copied for each block of places."""
        if self.together > 1:
            return True
        rows, row = self.turns * sum(size * count for size, count in self.tiles), self.groups * self.wide
        return self.panels > 1 and (rows >= MANY or row * self.element.bits // 8 % CONFLICTS == 0)

    @property
    def pixel(self) -> int:
        """Elements from a pixel to the next in such a copy, a little more than a power of two."""
        return self.groups * self.deep + self.lanes

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        images, rows = self.block
        return -(-self.images // images) * -(-self.rows.places // rows)

    @property
    def parts(self) -> int:
        """Of all blocks, whose sums are joined at the end."""
        return min(-(-WANTED // self.panels), self.blocks)

    @property
    def border(self) -> Border:
        """How a block of the input is copied."""
        channels = self.groups * self.deep
        return Border.around(self.rows, self.columns, self.block[1], channels, channels)

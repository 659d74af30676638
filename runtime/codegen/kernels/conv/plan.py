"""The partition of a convolution: tiles of pixels and channels, work items that threads share, and copies.

Bits depend on the split of the depth, and on whether a work item is a panel for all images, because such a convolution
may have other loops (`streamed`). Both follow from shapes and the nominal target. The sizes of this CPU's caches
decide only the number of rows of an image that a work item copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from math import prod
from typing import Final, NamedTuple

from runtime.codegen.costs import (
    GROUPED_TILE_PENALTY,
    L2_PANEL_BYTES_PER_CYCLE,
    PACKED_ELEMENT_CYCLES,
    SCATTERED_BYTE_CYCLES,
    chained_step_cycles,
)
from runtime.codegen.kernels.conv.axes import Axis
from runtime.codegen.kernels.matmul.plan import shares, step_cycles, tile_rows
from runtime.codegen.kernels.pair_chains import MAX_CHAINED_ROWS
from runtime.codegen.kernels.pair_products import GROUP_PAIRS
from runtime.codegen.machine import NOMINAL_L1_BYTES, NOMINAL_L2_BYTES, NOMINAL_LANES, NOMINAL_TARGET, Target

MAX_CHAIN_DEPTH: Final = 640
"""Upper bound on a chain of multiply-adds; a chain is a row of the filter, one of its taps, or a part of its channels.
"""

MIN_SPLIT_CHANNELS: Final = 64
"""Number of channels up to which they are not split."""


PIXELS_PER_ITEM: Final = 128
"""Output pixels of a work item for which reading the filter once costs little."""

MIN_TILE_IMAGES: Final = 8
"""Least number of images of a tile of images: fewer make too few multiply-adds with each vector of a panel."""

WANTED_ITEMS: Final = 8
"""Number of work items that gives each of few threads a share; `Target.wanted_items` returns that for many."""


ITEMS_PER_THREAD: Final = 2
"""Work items for each of many threads, which seldom are equal, if panels of channels are shared too."""

CONFLICT_STRIDE_BYTES: Final = 2048
"""Stride of pixels, or of rows of a filter, in bytes, at which few of them fit into the first-level cache at a time."""


MAX_TILES_PER_UNPACKED_PANEL: Final = 3
"""Number of tiles up to which they read a panel of the filter in place, because a copy would take longer."""

MAX_TILES_PER_UNPACKED_1X1_PANEL: Final = 96
"""The same for a 1x1 filter, whose rows are contiguous: no thread waits for the copy of another one.

It holds unless the rows of a panel are so far apart that few of them fit into the first-level cache.
"""


class ConvShape(NamedTuple):
    """A convolution, forwards or backwards.

    Attributes:
        images: number of images.
        rows, columns: axes of the image.
        groups: groups of channels.
        deep: source channels of a group.
        wide: result channels of a group.
        window: rows and columns of the filter.
        is_filter_transposed: True if the channel axes of the filter are exchanged.
        of_pairs: True if source channels are pairs of bfloat16, and `deep` counts pairs.
    """

    images: int
    rows: Axis
    columns: Axis
    groups: int
    deep: int
    wide: int
    window: tuple[int, int]
    is_filter_transposed: bool
    of_pairs: bool = False

    @property
    def channels(self) -> int:
        """Source channels of a group."""
        return self.deep * (2 if self.of_pairs else 1)

    @property
    def taps(self) -> int:
        """Taps of the filter."""
        return self.window[0] * self.window[1]

    @property
    def steps(self) -> int:
        """Multiply-adds for all results."""
        pixels = [sum(phase.pixels * phase.taps for phase in axis.phases) for axis in (self.rows, self.columns)]
        return self.images * pixels[0] * pixels[1] * self.groups * self.deep * self.wide

    @property
    def source(self) -> int:
        """Elements of the source."""
        return self.images * self.rows.source * self.columns.source * self.groups * self.deep

    @property
    def filters(self) -> int:
        """Elements of the filter."""
        return self.taps * self.groups * self.deep * self.wide


class ConvTile(NamedTuple):
    """A tile: images, rows and columns of pixels, and vectors of channels."""

    images: int
    rows: int
    columns: int
    vectors: int


class ConvPlan(NamedTuple):
    """The partition of a convolution.

    Attributes:
        block: the tile.
        lanes: lanes of a vector.
        images, rows, columns: numbers of parts of images, of their rows, and of panels of channels.
        by_panels: True if a work item is a panel for all images, and not a part of them.
        copies: True if the source is copied.
        packs: True if the filter is copied.
        pixel: stride of pixels of the copy, in elements.
        splits: numbers of blocks of the depth, by rows of the filter, its columns, and its channels.
        omits_border: True if a tile is one output position of several images, and taps outside of them are left out.
        is_widened: True if copies have the elements of pairs as float32.
        is_chained: True if words of copies hold neighbours of a chain of `kernels.pair_chains`.
    """

    block: ConvTile
    lanes: int
    images: int
    rows: int
    columns: int
    by_panels: bool
    copies: bool
    packs: bool
    pixel: int
    splits: tuple[bool, bool, int]
    omits_border: bool = False
    is_widened: bool = False
    is_chained: bool = False

    @property
    def elements(self) -> int:
        """Elements of a source channel, or of a pair of them, in copies."""
        return 2 if self.is_widened else 1

    @property
    def width(self) -> int:
        """Channels of a tile."""
        return self.block.vectors * self.lanes


def plan_convolution(target: Target, bits: int, shape: ConvShape, is_source_computed: bool = False) -> ConvPlan:
    """Return the partition of a convolution; `is_source_computed` states that copying its source computes it."""
    if omits_border(shape):
        return _plan_of_images(target, bits, shape)
    lanes, item = target.lanes(bits), bits // 8
    channels = shape.groups * shape.deep
    conflicts = channels * item % CONFLICT_STRIDE_BYTES == 0
    is_widened, is_chained = shape.of_pairs and target.widens_pairs, _chains(target, shape)
    copies = is_source_computed or is_widened or is_chained
    copies = copies or shape.rows.is_bordered or shape.columns.is_bordered or (conflicts and shape.taps > 1)
    pixel = channels + (lanes if conflicts and copies else 0)
    image = shape.rows.span(shape.rows.pixels) * shape.columns.span(shape.columns.pixels) * pixel * item
    image *= 2 if is_widened else 1
    wanted = target.wanted_items(WANTED_ITEMS)
    parts = _parts(shape, image if copies else 0, target.l2_bytes, wanted)
    whole = shape.rows.fewest * shape.columns.fewest * len(shape.rows.phases) * len(shape.columns.phases)
    block = _block(target, lanes, shape, one_row=parts > 1 and whole > PIXELS_PER_ITEM, keeps=is_chained)
    parts = parts if block.images == block.rows == 1 else 1
    images = shape.images if parts > 1 else max(min(shape.images * whole // PIXELS_PER_ITEM, shape.images), 1)
    images = min(images, shape.images // block.images)
    wanted *= ITEMS_PER_THREAD if target.has_many_threads else 1
    width = block.vectors * lanes
    panels = shape.groups * -(-shape.wide // width)
    nominal_parts = _parts(shape, image if copies else 0, NOMINAL_L2_BYTES, WANTED_ITEMS)
    nominal_lanes = target.nominal.lanes(bits)
    nominal = _block(target.nominal, nominal_lanes, shape, one_row=nominal_parts > 1 and whole > PIXELS_PER_ITEM)
    nominal_panels = shape.groups * -(-shape.wide // (nominal.vectors * nominal_lanes))
    by_panels = _has_large_filter(shape) and nominal_panels >= WANTED_ITEMS // 2
    tiles = shape.images * whole // max(block.images * block.rows * block.columns, 1)
    is_near = shape.taps == 1 and shape.wide * item % CONFLICT_STRIDE_BYTES != 0
    most = MAX_TILES_PER_UNPACKED_1X1_PANEL if is_near else MAX_TILES_PER_UNPACKED_PANEL
    few = (by_panels or shape.taps == 1) and tiles <= most
    packs = shape.is_filter_transposed or shape.of_pairs or shape.groups > 1 or (shape.wide > width and not few)
    return ConvPlan(
        block,
        lanes,
        1 if by_panels else images,
        1 if by_panels else parts,
        panels if by_panels else min(panels, max(-(-wanted // (images * parts)), 1)),
        by_panels,
        copies,
        packs,
        pixel * (2 if is_widened else 1),
        _splits(shape),
        is_widened=is_widened,
        is_chained=is_chained,
    )


def _chains(target: Target, shape: ConvShape) -> bool:
    """Return True if copies have combined words: the depth of each filter element has whole groups."""
    parts = _splits(shape)[2]
    return shape.of_pairs and target.chains_pairs and shape.deep % (parts * GROUP_PAIRS) == 0


def _has_large_filter(shape: ConvShape) -> bool:
    """Return True if the filter is larger than the images, so that a thread should keep its panels."""
    return shape.filters > 2 * shape.source


def omits_border(shape: ConvShape) -> bool:
    """Return True if a convolution of pairs goes over images instead of lines of pixels.

    All pixels of a tile then see the same taps, and those outside of the image are left out. It pays if borders or
    incomplete tiles take more multiply-adds than the images of the last tile. The choice decides about the sign of 0
    and about NaN, so it depends on the shape alone.
    """
    if not shape.of_pairs or shape.groups > 1 or shape.taps == 1 or shape.images < MIN_TILE_IMAGES:
        return False
    axes = shape.rows, shape.columns
    if any(axis.apart != 1 for axis in axes) or not any(axis.is_bordered for axis in axes):
        return False
    nominal = NOMINAL_TARGET
    lines = min(_costs(nominal, NOMINAL_LANES, shape, 0, one_row=False).values()) * shape.taps
    seen = prod(sum(map(len, axis.taps_inside)) for axis in axes)
    images = min(_costs_of_images(nominal, NOMINAL_LANES, shape).values()) * seen
    return images < lines


def _costs_of_images(target: Target, lanes: int, shape: ConvShape, *, keeps: bool = False) -> dict[ConvTile, float]:
    """Return the cycles of a step of the depth at one output position, by tiles of images."""
    costs: dict[ConvTile, float] = {}
    for vectors, most in _tile_rows(target, shape, keeps=keeps).items():
        fewest = -(-shape.images // most)
        for parts in (fewest, fewest + 1):
            sizes = shares(shape.images, -(-shape.images // parts))
            cycles = chained_step_cycles if keeps else partial(step_cycles, target, of_pairs=shape.of_pairs)
            step = sum(n * cycles(size, vectors) for size, n in sizes)
            costs[ConvTile(sizes[0][0], 1, 1, vectors)] = step * -(-shape.wide // (vectors * lanes))
    return costs


def _plan_of_images(target: Target, bits: int, shape: ConvShape) -> ConvPlan:
    """Return the partition of a convolution whose tiles are one output position of several images."""
    lanes, item = target.lanes(bits), bits // 8
    is_widened, is_chained = target.widens_pairs, _chains(target, shape)
    costs = _costs_of_images(target, lanes, shape, keeps=is_chained)
    block = min(costs, key=lambda block: (costs[block], shape.images % block.images))
    parts = -(-shape.images // block.images)
    image = shape.rows.span(shape.rows.pixels) * shape.columns.span(shape.columns.pixels) * shape.deep * item
    image *= 2 if is_widened else 1
    wanted = target.wanted_items(WANTED_ITEMS)
    rows = max(-(-image * block.images // (target.l2_bytes // 2)), -(-wanted // parts))
    rows = min(rows, shape.rows.fewest)
    panels = -(-shape.wide // (block.vectors * lanes))
    wanted *= ITEMS_PER_THREAD if target.has_many_threads else 1
    by_panels = _has_large_filter(shape) and panels >= WANTED_ITEMS // 2
    columns = panels if by_panels else min(panels, max(-(-wanted // (parts * rows)), 1))
    images, rows = (1, 1) if by_panels else (parts, rows)
    splits = _splits(shape)
    return ConvPlan(
        block,
        lanes,
        images,
        rows,
        columns,
        by_panels,
        True,
        True,
        shape.deep * (2 if is_widened else 1),
        splits,
        omits_border=True,
        is_widened=is_widened,
        is_chained=is_chained,
    )


def _parts(shape: ConvShape, image_bytes: int, l2_bytes: int, wanted: int) -> int:
    """Return the number of parts of an image's rows: enough for all threads, and each in a quarter of the cache."""
    parts = max(-(-image_bytes // max(l2_bytes // 4, 1)), 1)
    parts = max(parts, -(-wanted // shape.images) if shape.images < wanted else 1)
    return min(parts, shape.rows.fewest)


def _splits(shape: ConvShape) -> tuple[bool, bool, int]:
    rows, columns = (max(phase.taps for phase in axis.phases) for axis in (shape.rows, shape.columns))
    if rows * columns * shape.deep <= MAX_CHAIN_DEPTH:
        return False, False, 1
    if columns * shape.deep <= MAX_CHAIN_DEPTH:
        return True, False, 1
    parts = range(-(-shape.deep // MAX_CHAIN_DEPTH), shape.deep // MIN_SPLIT_CHANNELS + 1)
    return True, True, next((count for count in parts if shape.deep % count == 0), 1)


def direct_cycles(target: Target, bits: int, shape: ConvShape) -> float:
    """Return the cycles of all tiles, as if the filter were in the nearest cache: no cache size enters a choice."""
    lanes = target.lanes(bits)
    steps = min(_costs(target, lanes, shape, 0, one_row=False).values())
    penalty = GROUPED_TILE_PENALTY if shape.groups > 1 else 1
    return steps * shape.taps * shape.deep * shape.groups * penalty + packed_filter_cycles(bits, shape)


def packed_filter_cycles(bits: int, shape: ConvShape) -> float:
    """Return the cycles of copying a filter into panels, from memory if it exceeds the nominal second-level cache."""
    nbytes = shape.filters * bits // 8
    reads = nbytes * SCATTERED_BYTE_CYCLES if nbytes > NOMINAL_L2_BYTES else 0
    return shape.filters * PACKED_ELEMENT_CYCLES + reads


def _block(target: Target, lanes: int, shape: ConvShape, one_row: bool, *, keeps: bool = False) -> ConvTile:
    """Return the tile that takes the fewest cycles for each step of the depth; with `keeps`, sums stay in registers."""
    panel = shape.taps * shape.deep * target.vector_bytes
    near = 0 if panel <= NOMINAL_L1_BYTES // 4 else target.vector_bytes / L2_PANEL_BYTES_PER_CYCLE
    costs = _costs(target, lanes, shape, near, one_row, keeps=keeps)
    return min(costs, key=lambda block: costs[block])


@lru_cache(maxsize=1 << 10)  # a network has few different convolutions, and each is asked for several times
def _costs(
    target: Target, lanes: int, shape: ConvShape, near: float, one_row: bool, *, keeps: bool = False
) -> dict[ConvTile, float]:
    """Return, by tile, the cycles of a step of the depth of all tiles; reading a vector of the panel takes `near`."""
    costs: dict[ConvTile, float] = {}
    for vectors, most in _tile_rows(target, shape, keeps=keeps).items():
        for images, rows, columns in _tile_extents(shape, most, one_row):
            count = images * rows * columns
            copied = count if images * rows > 1 else 0
            step = step_cycles(target, count, vectors, near, of_pairs=shape.of_pairs, copied_rows=copied)
            step = chained_step_cycles(count, vectors) if keeps else step
            tiles = -(-shape.images // images) * -(-shape.rows.pixels // rows) * -(-shape.columns.pixels // columns)
            costs[ConvTile(images, rows, columns, vectors)] = tiles * -(-shape.wide // (vectors * lanes)) * step
    return costs


def _tile_rows(target: Target, shape: ConvShape, *, keeps: bool) -> Mapping[int, int]:
    return MAX_CHAINED_ROWS if keeps else tile_rows(target, of_pairs=shape.of_pairs)


def _tile_extents(shape: ConvShape, most: int, one_row: bool) -> Iterator[tuple[int, int, int]]:
    """Give images, rows and columns of tiles of at most `most` pixels."""
    for width in _sizes(shape.columns, most):
        yield 1, 1, width
        if one_row:
            continue
        for height in {1, *_sizes(shape.rows, most // width)}:
            for images in range(1, min(most // (width * height), shape.images) + 1):
                yield images, height, width


def _sizes(axis: Axis, most: int) -> set[int]:
    """Return the extents of a tile along an axis for the fewest equal tiles, and for one tile more."""
    fewest = -(-axis.pixels // most)
    return {min(-(-axis.pixels // parts), axis.fewest) for parts in (fewest, fewest + 1)}

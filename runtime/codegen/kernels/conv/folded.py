"""A convolution, or the gradient of its input, whose vectors hold the products of a pixel and a row of the filter.

Every pixel of a line of the source is multiplied by a row of the filter, whose columns and channels are contiguous. An
output pixel adds one part of the products of each pixel that its window sees. Thus no padding is copied or multiplied,
tiles are as large as lines allow, and six channels in five columns fill 30 of 32 lanes instead of 6 of 16.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from runtime.codegen.costs import FOLDED_PART_CYCLES, PACKED_ELEMENT_CYCLES
from runtime.codegen.ir import Function, Index, Type, Value
from runtime.codegen.ir.words import maximum, minimum
from runtime.codegen.kernels.conv.axes import Axis, AxisPhase
from runtime.codegen.kernels.conv.plan import MAX_CHAIN_DEPTH, WANTED_ITEMS, ConvShape, packed_filter_cycles
from runtime.codegen.kernels.copies import copied, zeros
from runtime.codegen.kernels.depth import DepthLoop, Tile
from runtime.codegen.kernels.matmul import Matrix, in_tiles
from runtime.codegen.kernels.matmul.packing import packed_right
from runtime.codegen.kernels.matmul.plan import tile_cycles, tile_shape
from runtime.codegen.kernels.split import part_of
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps, Prepack, batch_parts
from runtime.codegen.kernels.tiles import by_size, lines, starts, tile
from runtime.codegen.machine import Target

MAX_PANEL_VECTORS: Final = 8
"""Upper bound on the vectors of a pixel in a panel."""


class Folded:
    """The loops, for windows with a stride of one.

    Attributes:
        share: channels of a panel.
        panels: number of panels of channels.
        pixel: elements of a pixel's products with a panel: its channels for all columns of the filter, in whole
            vectors.
        margin: pixels of the scratch before the first pixel of the source; these, and those after the last, are 0.
        across: pixels of the scratch.
    """

    def __init__(self, target: Target, element: Type, shape: ConvShape) -> None:
        self.target, self.element, self.shape, lanes = target, element, shape, target.lanes(element.bits)
        self.vector = element.of(lanes)
        self.rows, self.columns = shape.rows.phases[0], shape.columns.phases[0]
        steps, self.share = min((self._cycles(share), share) for share in self._shares())
        self.panels = -(-shape.wide // self.share)
        self.pixel = -(-self.columns_of_filter * self.share // lanes) * lanes
        self.rows_of_tile, vectors = self._tile(self.share)
        self.width = vectors * lanes
        self.margin = max(shape.columns.before - self.columns.start, 0)
        self.across = self.margin + max(shape.columns.source, self._seen(self.columns.pixels - 1, self.columns.taps))
        wanted = target.wanted_items(WANTED_ITEMS)
        self.parts = 1 if shape.images >= wanted else min(-(-wanted // shape.images), self.rows.pixels)
        self.is_cut = shape.window[0] * shape.deep > MAX_CHAIN_DEPTH
        self.by_panels = shape.filters > 2 * shape.source and self.panels >= WANTED_ITEMS // 2
        taps = sum(stop - start for start, stop in map(self._taps_of, range(self.rows.pixels)))
        pixels = self.rows.pixels * self.columns.pixels * -(-shape.wide // lanes)
        products = taps * shape.deep * steps
        parts = pixels * self.columns.taps * FOLDED_PART_CYCLES
        self.cycles: float = shape.images * (products + parts) + packed_filter_cycles(element.bits, shape)

    @staticmethod
    def applies(target: Target, element: Type, shape: ConvShape) -> bool:
        """Return True for windows of several columns that move pixel by pixel over one group."""
        del target, element
        rows, columns = shape.rows, shape.columns
        steps = (rows.apart, rows.every, columns.step, columns.apart, columns.every)
        return shape.groups == 1 and shape.window[1] > 1 and steps == (1, 1, 1, 1, 1) and shape.deep <= MAX_CHAIN_DEPTH

    def steps(self) -> KernelSteps:
        """Return the kernel steps: a copy of the filter, unless work items copy their panels, and the computation."""
        shape, item = self.shape, self.element.bits // 8
        items = self.panels if self.by_panels else shape.images * self.parts
        own_images = None if self.by_panels else batch_parts(shape.images, shape.images, 0)
        compute = KernelStep(self.compute, items, self.cycles, batch_parts=own_images)
        products = (self.across * self.pixel + self.vector.lanes) * item
        if self.by_panels:
            return KernelSteps((compute,), (), (products, self._panel_size * item))
        prepack = Prepack((1,), (0,))
        pack = KernelStep(
            self.pack, self.panels * shape.window[0], shape.filters * PACKED_ELEMENT_CYCLES, prepack=prepack
        )
        return KernelSteps((pack, compute), (self.panels * self._panel_size * item,), (products,))

    # The filter.

    def pack(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Pack the filter; work items are rows of the filter in a panel."""
        f, rows = context.f, self.shape.window[0]
        for item in f.range(start, stop):
            panel, row = f.index(item) // rows, f.index(item) % rows
            self._pack_row(context, context.shared_scratch(0, self.element) + panel * self._panel_size, panel, row)

    def _pack_row(self, context: KernelContext, panel_at: Value, panel: Value, row: Value) -> None:
        """Pack, for every channel of the source, all of its factors."""
        f, shape, w = context.f, self.shape, context.operand(1)
        columns, row_size = self.columns_of_filter, shape.deep * self.pixel
        source, to = w + row * (columns * shape.wide * shape.deep), panel_at + row * row_size
        if shape.is_filter_transposed and self.panels == 1:
            line = Matrix(source, 1, shape.deep)
            packed_right(f, line, to, shape.deep, columns * shape.wide, self.pixel, shape.deep, self.vector)
            return
        if not shape.is_filter_transposed:
            zeros(f, to, row_size, self.vector)
        for count in by_size(f, shape.wide, self.share, panel):
            for j in f.range(0, columns):
                tap = source + f.index(j) * (shape.wide * shape.deep)
                if shape.is_filter_transposed:
                    matrix = Matrix(tap + panel * (self.share * shape.deep), 1, shape.deep)
                    pixel = to + f.index(j) * self.share
                    packed_right(f, matrix, pixel, shape.deep, count, self.pixel, shape.deep, self.vector)
                    continue
                for d in f.range(0, shape.deep):
                    at = tap + (f.index(d) * shape.wide + panel * self.share)
                    copied(f, at, to + (f.index(d) * self.pixel + f.index(j) * self.share), count, self.vector)

    # The convolution.

    def compute(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the computation; work items are a few output rows of an image, or panels for all images."""
        f, shape = context.f, self.shape
        for item in f.range(start, stop):
            self._clear(f, context.thread_scratch(0, self.element))
            if self.by_panels:
                packed = context.thread_scratch(1, self.element)
                for row in f.range(0, shape.window[0]):
                    self._pack_row(context, packed, f.index(item), f.index(row))
                for image in f.range(0, shape.images):
                    self._rows(context, packed, f.index(image), f.index(item), (0, self.rows.pixels))
                continue
            image, rows = f.index(item) // self.parts, part_of(f, self.rows.pixels, item % self.parts, self.parts)
            for panel in f.range(0, self.panels):
                packed = context.shared_scratch(0, self.element) + f.index(panel) * self._panel_size
                self._rows(context, packed, image, f.index(panel), rows)

    def _clear(self, f: Function, products: Value) -> None:
        """Clear the pixels that the source does not have."""
        end = self.margin + self.shape.columns.source
        zeros(f, products, self.margin * self.pixel, self.vector)
        zeros(f, products + end * self.pixel, (self.across - end) * self.pixel, self.vector)

    def _rows(
        self, context: KernelContext, packed: Value, image: Value, panel: Value, rows: tuple[Index, Index]
    ) -> None:
        f, products = context.f, context.thread_scratch(0, self.element)
        first = self.margin + self.columns.start - self.shape.columns.before
        for row in f.range(*rows):
            self._multiply(context, image, f.index(row), packed)
            pixel = (image * self.rows.pixels + row) * self.columns.pixels
            for count in by_size(f, self.shape.wide, self.share, panel):
                for column in f.range(0, self.columns.pixels):
                    at = products + (f.index(column) + first) * self.pixel
                    self._fold(context, at, pixel + column, panel * self.share, count)

    def _multiply(self, context: KernelContext, image: Value, row: Value, packed: Value) -> None:
        """Multiply all pixels below an output row by the rows of the filter, and add over rows and channels."""
        f, shape, source = context.f, self.shape, context.operand(0)
        line = shape.columns.source * shape.deep
        first, stop = _taps(shape.rows, self.rows, row)
        top = row * shape.rows.step + (self.rows.start - shape.rows.before)
        left = source + (image * shape.rows.source + top + first) * line
        tap = shape.deep * self.pixel
        right = packed + (first * self.rows.onward + self.rows.filters) * tap
        over_rows, over_channels = (
            DepthLoop(stop - first, line, self.rows.onward * tap),
            DepthLoop(shape.deep, 1, self.pixel),
        )
        if not self.is_cut:
            self._tiles(context, left, right, [over_rows, over_channels])
            return
        end = self.margin * self.pixel
        zeros(f, context.thread_scratch(0, self.element) + end, shape.columns.source * self.pixel, self.vector)
        for i in f.range(0, over_rows.iterations):
            self._tiles(context, left + i * over_rows.left, right + i * over_rows.right, [over_channels])

    def _tiles(self, context: KernelContext, left: Value, right: Value, depth: list[DepthLoop]) -> None:
        """Compute the products of a line of pixels; parts of a split depth are added in order."""
        f, shape, lanes = context.f, self.shape, self.vector.lanes
        rows = [i * shape.deep for i in range(self.rows_of_tile)]
        for j in range(0, self.pixel, self.width):
            count = min(self.width, self.pixel - j)
            for pixel, size in self._pixels(f):
                to = context.thread_scratch(0, self.element) + ((f.index(pixel) + self.margin) * self.pixel + j)
                at = left + f.index(pixel) * shape.deep
                sums = tile(Tile.of(at, rows[:size], right + j, count, self.vector, depth))
                for i, vectors in enumerate(lines(sums, size)):
                    for v, x in enumerate(vectors):
                        at = i * self.pixel + v * lanes
                        f.store(x if not self.is_cut else f.load(to, at, lanes) + x, to, at)

    def _pixels(self, f: Function) -> Iterator[tuple[Index, int]]:
        """Yield the first pixel and the size of each tile of a line; tiles that add to their sums do not overlap."""
        if self.is_cut:
            yield from in_tiles(f, self.shape.columns.source, self.rows_of_tile)
            return
        for pixel in starts(f, self.shape.columns.source, self.rows_of_tile):
            yield pixel, self.rows_of_tile

    def _fold(self, context: KernelContext, at: Value, pixel: Value, first: Value, count: int) -> None:
        """Write `count` channels of an output pixel, from the products of the pixels below it."""
        f, lanes, columns = context.f, self.vector.lanes, self.columns
        for channel in range(0, count, lanes):
            seen = (
                f.load(at, t * self.pixel + (columns.filters + t * columns.onward) * self.share + channel, lanes)
                for t in range(columns.taps)
            )
            total = next(seen)
            for x in seen:
                total = total + x
            tail = min(lanes, count - channel)
            if context.finish is not None:
                context.finish(total, pixel, first + channel, tail)
            else:
                f.store(total, context.outputs[0] + (pixel * self.shape.wide + first), channel, tail)

    # The partition.

    @property
    def columns_of_filter(self) -> int:
        """Columns of the filter."""
        return self.shape.window[1]

    @property
    def _panel_size(self) -> int:
        """Elements of a panel of the filter."""
        return self.shape.window[0] * self.shape.deep * self.pixel

    def _shares(self) -> list[int]:
        """Return the possible channels of a panel: all, or some vectors of them."""
        lanes, wide = self.vector.lanes, self.shape.wide
        most = MAX_PANEL_VECTORS * lanes // self.columns_of_filter
        return [*range(lanes, min(most + 1, wide), lanes)] + [wide] * (wide <= max(most, lanes)) or [lanes]

    def _tile(self, share: int) -> tuple[int, int]:
        return tile_shape(self.target, self.vector.lanes, self.shape.columns.source, self.columns_of_filter * share)

    def _cycles(self, share: int) -> float:
        """Return the cycles of a step of the depth for a line of pixels."""
        line = self.columns_of_filter * share
        panels = -(-self.shape.wide // share)
        return panels * tile_cycles(self.target, self.vector.lanes, self.shape.columns.source, line)

    def _seen(self, pixel: int, taps: int) -> int:
        """Return the pixel of the source after the last one below `taps` taps."""
        return pixel + self.columns.start - self.shape.columns.before + taps

    def _taps_of(self, row: int) -> tuple[int, int]:
        top = row * self.shape.rows.step + self.rows.start - self.shape.rows.before
        first = max(-top, 0)
        return first, max(min(self.shape.rows.source - top, self.rows.taps), first)


def _taps(axis: Axis, phase: AxisPhase, row: Value) -> tuple[Value, Value]:
    """Return the first tap at an output position that is inside of the image, and the one after the last."""
    top = row * axis.step + (phase.start - axis.before)
    first = maximum(0 - top, 0)
    return first, maximum(minimum(axis.source - top, phase.taps), first)

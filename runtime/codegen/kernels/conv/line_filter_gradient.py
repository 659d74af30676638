"""The gradient of a filter with few output channels, whose vectors are the output channels of a row of the filter.

A pixel is multiplied by the gradients of all output pixels of a line that see it, which are contiguous: 6 channels in 5
columns fill 30 of 32 lanes. Lines of the gradient are copied with zeros around them. So are the lines of the input that
a block sees, if the window extends above or below the image. Sums of blocks, and of parts, are added in order.
"""

from __future__ import annotations

from collections.abc import Iterator

from runtime.codegen.costs import COPIED_VECTOR_CYCLES, LINE_LOOP_CYCLES, PARTIAL_SUM_CYCLES
from runtime.codegen.ir import Function, Index, Value
from runtime.codegen.ir.words import minimum
from runtime.codegen.kernels.conv.borders import Border, Images, bordered
from runtime.codegen.kernels.conv.filter_plan import FilterGradient
from runtime.codegen.kernels.conv.plan import WANTED_ITEMS
from runtime.codegen.kernels.copies import copied, zeros
from runtime.codegen.kernels.depth import DepthLoop, Tile
from runtime.codegen.kernels.matmul import in_shares
from runtime.codegen.kernels.matmul.plan import shares, tile_cycles, tile_shape
from runtime.codegen.kernels.split import part_of
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.kernels.tiles import lines, tile
from runtime.codegen.machine import Target


class LineFilterGradient:
    """The loops, for windows with a stride of one.

    Attributes:
        line: elements of a panel of the result: channels for all columns of the filter, in whole vectors.
        margin: pixels before the first of a line of the gradient.
        across: pixels of a padded line.
        taps: rows of a filter in a tile, in parts.
        channels: channels of a tile, in parts.
    """

    def __init__(self, target: Target, shape: FilterGradient) -> None:
        columns, lanes = shape.columns, shape.lanes
        self.shape, self.vector = shape, shape.element.of(lanes)
        self.depth = shape.rows.window * shape.deep
        filled = columns.window * shape.wide
        self.line = -(-filled // lanes) * lanes
        most, vectors = tile_shape(target, lanes, self.depth, filled)
        self.width = vectors * lanes
        self.margin = max(columns.window - 1 - columns.before, 0)
        self.across = self.margin + max(columns.pixels, columns.source + columns.before)
        self.taps = shares(shape.rows.window, max(most // shape.deep, 1))
        self.channels = shares(shape.deep, most)
        images, rows = shape.whole_lines
        self.block = images, -(-shape.rows.pixels // -(-shape.rows.pixels // rows))
        self.down = -(-shape.rows.pixels // self.block[1])
        self.blocks = -(-shape.images // images) * self.down
        self.parts = min(WANTED_ITEMS, self.blocks)
        self.cycles = self._cycles(tile_cycles(target, lanes, self.depth, filled))

    @staticmethod
    def applies(target: Target, shape: FilterGradient) -> bool:
        """Return True for windows that move pixel by pixel, and results of fewer channels than a vector has."""
        columns, lanes = shape.columns, target.nominal.lanes(shape.element.bits)
        return shape.groups == columns.stride == columns.dilation == 1 and columns.window > 1 and shape.wide < lanes

    def steps(self) -> KernelSteps:
        """Return the kernel steps: the sums of parts, and their addition."""
        shape, item = self.shape, self.shape.element.bits // 8
        images, rows = self.block
        part = KernelStep(self.part, self.parts, self.cycles)
        join = KernelStep(self.join, self.depth, self.depth * self.line * self.parts * PARTIAL_SUM_CYCLES)
        own = [(images * rows * self.across * shape.wide + shape.lanes + self.line) * item]
        if self._is_bordered:
            own.append(images * self._border.size * item)
        return KernelSteps((part, join), (self.parts * self.depth * self.line * item,), tuple(own))

    def _cycles(self, step: float) -> float:
        """Return the cycles of the whole gradient; all tiles together take `step` cycles for a pixel."""
        shape, across = self.shape, -(-self.line // self.width)
        tiles = sum(many for _, many in self.taps) * sum(many for _, many in self.channels) * across
        line = shape.columns.source * step + LINE_LOOP_CYCLES * tiles
        copied = shape.columns.source * shape.deep * self._is_bordered + self.across * shape.wide
        copies = 2 * LINE_LOOP_CYCLES + COPIED_VECTOR_CYCLES * copied / shape.lanes
        return shape.images * shape.rows.pixels * (line + copies)

    # Parts.

    def part(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the sums; work items are parts of all blocks."""
        f, shape, (images, rows) = context.f, self.shape, self.block
        for item in f.range(start, stop):
            to = context.shared_scratch(0, shape.element) + f.index(item) * (self.depth * self.line)
            zeros(f, to, self.depth * self.line, self.vector)
            for number in f.range(*part_of(f, self.blocks, item, self.parts)):
                image, row = f.index(number) // self.down * images, f.index(number) % self.down * rows
                count = minimum(shape.images - image, images) if shape.images % images else images
                height = minimum(shape.rows.pixels - row, rows) if shape.rows.pixels % rows else rows
                at = self._seen(context, image, row, count, height)
                self._copy(
                    context, (image * shape.rows.pixels + row), f.index(count) * height
                )  # a block of several images has whole images
                self._tiles(context, at, count, height, to)

    def _seen(self, context: KernelContext, image: Value, row: Value, images: Index, rows: Index) -> Images:
        """Return the lines of the input that a block sees."""
        shape, border, source = self.shape, self._border, context.operand(0)
        line = border.columns * border.between
        begin, first = source + image * (border.rows * line), row * shape.rows.stride
        if not self._is_bordered:
            return Images(begin + first * line, border.rows * line, line, border.between)
        height = (rows - self.block[1]) * shape.rows.stride + border.height
        return bordered(
            context.f, border, begin, context.thread_scratch(1, shape.element), images, first, height, self.vector
        )

    def _copy(self, context: KernelContext, first: Value, count: Index) -> None:
        """Copy lines of the gradient."""
        f, shape, dy = context.f, self.shape, context.operand(1)
        pixels, wide, to = shape.columns.pixels, shape.wide, context.thread_scratch(0, shape.element)
        for i in f.range(0, count):
            at = to + f.index(i) * (self.across * wide)
            zeros(f, at, self.margin * wide, self.vector)
            copied(f, dy + (first + i) * (pixels * wide), at + self.margin * wide, pixels * wide, self.vector)
            zeros(f, at + (self.margin + pixels) * wide, (self.across - self.margin - pixels) * wide, self.vector)
        zeros(f, to + f.index(count) * (self.across * wide), self.line + shape.lanes, self.vector)

    def _tiles(self, context: KernelContext, at: Images, images: Index, rows: Index, to: Value) -> None:
        f, shape, line = context.f, self.shape, self.across * self.shape.wide
        begin = self.margin + shape.columns.before - (shape.columns.window - 1)
        right = context.thread_scratch(0, shape.element) + begin * shape.wide
        depth = [
            DepthLoop(images, at.image, self.block[1] * line),
            DepthLoop(rows, shape.rows.stride * at.row, line),
            DepthLoop(shape.columns.source, at.pixel, shape.wide),
        ]
        for pixel, left, rows_of_tile in self._rows(f, at):
            for j in range(0, self.line, self.width):
                there, count = to + (pixel * self.line + j), min(self.width, self.line - j)
                offsets = [far for far, _ in rows_of_tile]
                sums = tile(Tile.of(left, offsets, right + j, count, self.vector, depth))
                for (_, i), vectors in zip(rows_of_tile, lines(sums, len(offsets)), strict=True):
                    for v, x in enumerate(vectors):
                        far = i * self.line + v * shape.lanes
                        f.store(f.load(there, far, shape.lanes) + x, there, far)

    def _rows(self, f: Function, at: Images) -> Iterator[tuple[Value, Value, list[tuple[int, int]]]]:
        """Yield, for each tile: its first row, the address of its input, and the offsets of rows in both."""
        deep, row = self.shape.deep, self.shape.rows.dilation * at.row
        for i, height in in_shares(f, self.taps):
            for c, width in in_shares(f, self.channels):
                tap, channel = f.index(i), f.index(c)
                pixels = [(k * row + d, k * deep + d) for k in range(height) for d in range(width)]
                yield tap * deep + channel, at.at + tap * row + channel, pixels

    @property
    def _is_bordered(self) -> bool:
        """True if rows of the filter see rows that the input does not have."""
        rows = self.shape.rows
        return rows.before > 0 or rows.span(rows.pixels) > rows.source

    @property
    def _border(self) -> Border:
        """The padded copy of a block of the input: rows of zeros above and below, and no columns of zeros."""
        rows, channels = self.shape.rows, self.shape.deep
        columns = self.shape.columns.source
        return Border(
            rows.source, columns, rows.before, 0, rows.span(self.block[1]), columns, channels, channels, channels
        )

    # Addition of parts.

    def join(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Add the parts; work items are rows of the filter and channels of the input."""
        f, shape = context.f, self.shape
        for item in f.range(start, stop):
            tap, channel = f.index(item) // shape.deep, f.index(item) % shape.deep
            for j in range(shape.columns.window):
                sums = context.shared_scratch(0, shape.element) + f.index(item) * self.line
                far = (shape.columns.window - 1 - j) * shape.wide
                at = ((tap * shape.columns.window + j) * shape.deep + channel) * shape.wide
                for c in range(0, shape.wide, shape.lanes):
                    tail = min(shape.wide - c, shape.lanes)
                    total = f.load(sums, far + c, shape.lanes, tail)
                    for part in range(1, self.parts):
                        total = total + f.load(sums, part * self.depth * self.line + far + c, shape.lanes, tail)
                    f.store(total, context.outputs[0] + at, c, tail)

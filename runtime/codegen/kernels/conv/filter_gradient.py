"""The gradient of a convolution's filter: a product whose rows are input channels, and whose depth is output pixels.

A work item is a panel of output channels and a part of all pixels; its sums are added to those of other parts at the
end, in order. The depth of a tile is a block of pixels that fits into the caches. A tap is multiplied
only with the pixels that it sees inside of the image. If there are few channels, a tile has the rows of several taps,
and reads a padded copy of the image.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Final, NamedTuple

from runtime.codegen.costs import PACKED_ELEMENT_CYCLES, multiply_add_cycles
from runtime.codegen.ir import Function, Index, Value
from runtime.codegen.ir.types import WIDENED_BFLOAT16
from runtime.codegen.ir.words import maximum, minimum
from runtime.codegen.kernels.conv.borders import Images, bordered
from runtime.codegen.kernels.conv.filter_plan import FilterAxis, FilterGradient
from runtime.codegen.kernels.copies import copied
from runtime.codegen.kernels.depth import DepthLoop, PairForm, Tile
from runtime.codegen.kernels.matmul import in_shares, in_tiles
from runtime.codegen.kernels.matmul.plan import shares
from runtime.codegen.kernels.pair_chains import pair_of_row
from runtime.codegen.kernels.pair_products import copied_pairs
from runtime.codegen.kernels.partial_sums import reduction_step
from runtime.codegen.kernels.split import part_of
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps, batch_parts
from runtime.codegen.kernels.tiles import add_rows, by_size, choice, rows_of_tile
from runtime.codegen.machine import Target

MAX_DEEP_RANGES: Final = 8
"""Upper bound on the ranges of input channels, each of which copies the gradient of its panel."""

MIN_RANGE_CHANNELS: Final = 24
"""Least number of input channels of a range, so that a copy is read often enough to cost little."""


def filter_steps(target: Target, shape: FilterGradient) -> KernelSteps:
    """Return the kernel steps, whose operands are the input and the gradient of the result."""
    shape, item = shape.planned(target), shape.element.bits // 8
    is_chained = shape.is_interleaved and target.chains_pairs
    shape = shape.kept(target) if is_chained else shape
    emission = _Emission(shape, _deep_ranges(target, shape), target)
    steps = shape.size // shape.groups * shape.images * shape.rows.pixels * shape.columns.pixels
    cost = multiply_add_cycles(target, shape.lanes, steps)
    kernel_steps: list[KernelStep] = []
    shared = [shape.parts * shape.size * item if shape.parts > 1 else 64]
    if shape.copies:
        pixel = shape.pixel if shape.together > 1 else shape.groups * shape.deep
        size = shape.images * shape.rows.source * shape.columns.source * pixel * emission.elements
        kernel_steps.append(KernelStep(emission.copy, shape.images, size * PACKED_ELEMENT_CYCLES))
        shared.append(size * item)
    images, rows = shape.block
    whole = gcd(shape.parts, shape.images // images) if shape.images % images == 0 else 1
    own_images = batch_parts(whole, shape.images * (2 if shape.of_pairs else 1), 0, 1)
    items = shape.parts * shape.panels * emission.deep_ranges
    kernel_steps += [KernelStep(emission.parts, items, cost, batch_parts=own_images)]
    if shape.parts > 1:
        kernel_steps.append(reduction_step(shape.element, shape.lanes, shape.size, shape.parts))
    own = [images * rows * shape.columns.pixels * shape.width * emission.elements * item if shape.packs else 64]
    if shape.is_merged and shape.is_bordered:
        own.append(images * shape.border.size * item)
    return KernelSteps(tuple(kernel_steps), tuple(shared), tuple(own))


def _deep_ranges(target: Target, shape: FilterGradient) -> int:
    """Return the number of equal ranges of input channels by which many threads share a panel of a 1x1 filter.

    Of those with at least `MIN_RANGE_CHANNELS` channels, it is the one with which threads end first.
    """
    if not target.has_many_threads or shape.is_merged or shape.repetitions > 1:
        return 1
    items = shape.parts * shape.panels
    counts = [n for n in range(1, MAX_DEEP_RANGES + 1) if shape.deep % n == 0 and shape.deep // n >= MIN_RANGE_CHANNELS]
    return min(counts, key=lambda n: -(-items * n // target.threads) / n, default=1)


class _Block(NamedTuple):
    """A block of output pixels, as a work item reads it: images and rows, and the panel of the gradient."""

    first: Index
    images: Index
    row: Index
    rows: Index
    panel: Value
    line: int


class _Emission:
    """The loops.

    Attributes:
        elements: rows of copies for a pixel, or for a pair of them.
        is_chained: True if words of copies hold neighbours of a chain of `kernels.pair_chains`.
    """

    def __init__(self, shape: FilterGradient, deep_ranges: int, target: Target) -> None:
        self.shape, self.vector, self.deep_ranges = shape, shape.element.of(shape.lanes), deep_ranges
        is_widened = shape.of_pairs and shape.together > 1 and target.widens_pairs
        self.elements = 2 if is_widened else 1
        self.is_chained = shape.is_interleaved and target.chains_pairs

    def copy(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Copy the images; work items are images, or pairs of them."""
        f, shape, source = context.f, self.shape, context.operand(0)
        pixels, channels = shape.rows.source * shape.columns.source, shape.groups * shape.deep
        copies = context.shared_scratch(1, shape.element)
        for item in f.range(start, stop):
            if shape.together == 1:
                to = copies + item * (pixels * channels)
                self._copied(f, source, f.index(item), pixels * channels, 0, to, pixels * channels, 0)
                continue
            first, image = f.index(item) // shape.together, f.index(item) % shape.together
            each = self.elements * shape.pixel
            to = copies + (first * (pixels * shape.together) + image) * each
            for pixel in f.range(0, pixels):
                there = to + pixel * (shape.together * each)
                self._copied(
                    f, source, f.index(item), pixels * channels, pixel * channels, there, channels, shape.pixel
                )

    def _copied(
        self, f: Function, source: Value, image: Value, size: int, first: Index, to: Value, count: int, row: int
    ) -> None:
        """Copy `count` elements of an image of this size, or of a pair of images, from the first one on.

        Rows of the copy are `row` apart.
        """
        if not self.shape.of_pairs:
            copied(f, source + (image * size + first), to, count, self.vector)
            return
        images = [image * 2, image * 2 + 1]
        if self.is_chained:
            pair, half = pair_of_row(image)
            images = [pair * 2 + half + far for far in (2, 0)]  # of a chain, the later image is below
        if self.elements == 1:
            below, above = (source + (number * size + first) for number in images)
            copied_pairs(f, below, above, to, count, self.vector)
            return
        source = f.cast(source, WIDENED_BFLOAT16)
        for k, number in enumerate(images):
            copied(f, source + (number * size + first), to + k * row, count, self.vector)

    def parts(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the sums; work items are panels, or ranges of their input channels, in parts of all pixels."""
        f, shape = context.f, self.shape
        for item in f.range(start, stop):
            number, deep = f.index(item), f.index(0)
            if self.deep_ranges > 1:
                number, deep = number // self.deep_ranges, number % self.deep_ranges * (shape.deep // self.deep_ranges)
            part, panel = number // shape.panels, number % shape.panels
            group, j = panel // shape.across, panel % shape.across
            to = (
                context.outputs[0] if shape.parts == 1 else context.shared_scratch(0, shape.element) + part * shape.size
            )
            to = to + (group * shape.wide + j * shape.width)
            first, end = part_of(f, shape.blocks, part, shape.parts)

            for columns in by_size(f, shape.wide, shape.width, j):
                for number in f.range(first, end):
                    seen = self._block(context, f.index(number), group, j, columns)
                    self._tiles(context, seen, (group, deep), to, columns, f.index(number).equal(first))

    def _block(self, context: KernelContext, number: Value, group: Value, j: Value, columns: int) -> _Block:
        shape, (images, rows) = self.shape, self.shape.block
        down = -(-shape.rows.pixels // rows)
        first, row = number // down * images, number % down * rows
        count = images if shape.images % images == 0 else minimum(shape.images - first, images)
        height = rows if shape.rows.pixels % rows == 0 else minimum(shape.rows.pixels - row, rows)
        channels, dy = shape.groups * shape.wide, context.operand(1)
        pixels = shape.columns.pixels
        size, begin = shape.rows.pixels * pixels * channels, group * shape.wide + j * shape.width
        if not shape.packs:
            at = dy + (first * size + row * (pixels * channels) + begin)
            return _Block(first, count, row, height, at, channels)
        at = dy, size, row * (pixels * channels) + begin
        return _Block(
            first,
            count,
            row,
            height,
            self._packed(context, at, (first, count), height, columns),
            shape.width * self.elements,
        )

    def _packed(
        self,
        context: KernelContext,
        at: tuple[Value, int, Value],
        images: tuple[Value, Index],
        rows: Index,
        columns: int,
    ) -> Value:
        """Copy a panel of a block; `at` has the gradient, the size of an image, and its first element of the panel."""
        f, shape, to = context.f, self.shape, context.thread_scratch(0, self.shape.element)
        (dy, size, begin), (first, count), channels = at, images, shape.groups * shape.wide
        together, pixels = shape.block[0], f.index(rows) * shape.columns.pixels
        if not shape.copies:
            for pixel in f.range(0, count * pixels):  # a block of several images has whole images
                there = dy + (first * size + begin) + pixel * channels
                copied(f, there, to + pixel * shape.width, columns, self.vector)
            return to
        for image in f.range(0, count):
            for pixel in f.range(0, pixels):
                position = pixel * together + image if shape.together > 1 else image * pixels + pixel
                there, element = to + position * (self.elements * shape.width), begin + pixel * channels
                self._copied(f, dy, first + image, size, element, there, columns, shape.width)
        return to

    def _tiles(
        self,
        context: KernelContext,
        seen: _Block,
        channels: tuple[Value, Value],
        to: Value,
        columns: int,
        is_first: Value,
    ) -> None:
        """Add a panel of a block to its sums; `channels` are the group, and the first input channel of a range."""
        f, shape = context.f, self.shape
        row = shape.groups * shape.wide
        for left, offsets, first, panel, depth in self._rows(context, seen, channels):
            pixel = to + first * row
            for i in range(len(offsets)):
                f.prefetch(pixel, i * row)
            pairs = PairForm(self.elements > 1, self.is_chained) if shape.of_pairs else None
            sums = rows_of_tile(Tile.of(left, offsets, panel, columns, self.vector, depth), pairs=pairs)
            add_rows(sums, pixel, row, columns, is_first)

    def _rows(
        self, context: KernelContext, seen: _Block, channels: tuple[Value, Value]
    ) -> Iterator[tuple[Value, list[int], Index, Value, list[DepthLoop]]]:
        """Yield, for each tile: address and offsets of its rows, its first row of the filter, panel, depth."""
        group, deep = channels
        return self._merged(context, seen, group) if self.shape.is_merged else self._by_taps(context, seen, group, deep)

    def _merged(
        self, context: KernelContext, seen: _Block, group: Value
    ) -> Iterator[tuple[Value, list[int], Index, Value, list[DepthLoop]]]:
        f, shape = context.f, self.shape
        rows, columns, line = shape.rows, shape.columns, shape.line
        at = self._seen(context, seen)
        depth = self._depth(seen, at, seen.rows, columns.pixels)
        if line > shape.most:
            for i in f.range(0, rows.window):
                for c, size in in_shares(f, shape.tiles):
                    left = at.at + f.index(i) * (rows.dilation * at.row)
                    yield left + c, [*range(size)], f.index(i) * line + c, seen.panel, depth
            return
        for i, size in in_tiles(f, rows.window, shape.most // line):
            offsets = [
                k * rows.dilation * at.row + j * columns.dilation * at.pixel + c
                for k in range(size)
                for j in range(columns.window)
                for c in range(shape.deep)
            ]
            left = at.at + f.index(i) * (rows.dilation * at.row) + group * shape.deep
            yield left, offsets, f.index(i) * line, seen.panel, depth

    def _images(self, context: KernelContext) -> Value:
        """Return the address of the images, or of their copy."""
        if self.shape.copies:
            return context.shared_scratch(1, self.shape.element)
        return context.operand(0)

    def _seen(self, context: KernelContext, seen: _Block) -> Images:
        """Return the padded part of the input that a block of pixels sees."""
        shape, border, source = self.shape, self.shape.border, self._images(context)
        row = border.columns * border.between
        begin = source + seen.first * (border.rows * row)
        first = seen.row * shape.rows.stride
        if not shape.is_bordered:
            return Images(begin + first * row, border.rows * row, row, border.between)
        height = (seen.rows - shape.block[1]) * shape.rows.stride + border.height
        to = context.thread_scratch(1, shape.element)
        return bordered(context.f, border, begin, to, seen.images, first, height, self.vector)

    def _by_taps(
        self, context: KernelContext, seen: _Block, group: Value, deep: Value
    ) -> Iterator[tuple[Value, list[int], Index, Value, list[DepthLoop]]]:
        f, shape, source = context.f, self.shape, self._images(context)
        rows, columns, channels = shape.rows, shape.columns, shape.groups * shape.deep
        line = columns.source * channels
        at = Images(source + group * shape.deep, rows.source * line, line, channels)
        if shape.together > 1:
            each = self.elements * shape.pixel
            pixel = shape.together * each
            line = columns.source * pixel
            at = Images(source + group * shape.deep, each, line, pixel)
        for i in f.range(0, rows.window):
            top, height = inside_of(f, rows, i, seen.row, seen.rows)
            for j in f.range(0, columns.window):
                left, width = inside_of(f, columns, j, 0, columns.pixels)
                row, column = seen_at(rows, i, top), seen_at(columns, j, left)
                first = seen.first * (rows.source * line // shape.together)
                begin = at.at + first + row * at.row + column * at.pixel
                panel = seen.panel + (f.index(top - seen.row) * columns.pixels + left) * (seen.line * shape.together)
                depth = self._depth(seen, at, height, width)
                tap = (i * columns.window + j) * shape.deep
                if self.deep_ranges > 1:
                    begin, tap = begin + deep, tap + deep
                for c, size in in_shares(f, shares(shape.deep // self.deep_ranges, shape.most)):
                    yield begin + c, [*range(size)], tap + c, panel, depth

    def _depth(self, seen: _Block, at: Images, rows: Index, columns: Index) -> list[DepthLoop]:
        shape = self.shape
        step, together = shape.columns.stride, shape.together
        line = shape.columns.pixels * seen.line
        images = (
            DepthLoop(together, at.image, seen.line)
            if together > 1
            else DepthLoop(seen.images, at.image, shape.rows.pixels * line)
        )
        lines = DepthLoop(rows, shape.rows.stride * at.row, line * together)
        if together > 1 and step == 1 and not self.is_chained:
            # all images of a line of pixels are one loop, and so groups of its pairs
            return [lines, DepthLoop(columns * together, at.image, seen.line)]
        pixels = [lines, DepthLoop(columns, step * at.pixel, seen.line * together)]
        return [*pixels, images] if together > 1 else [images, *pixels]


def inside_of(f: Function, side: FilterAxis, tap: Index, first: Index, count: Index) -> tuple[Index, Index]:
    """Return the first, and the number, of those pixels at which a tap is inside of the image."""
    begins, ends = zip(*(side.seen(t) for t in range(side.window)), strict=True)
    begin, end = choice(f, tap, begins), choice(f, tap, ends)
    if isinstance(first, int) and isinstance(count, int) and isinstance(begin, int) and isinstance(end, int):
        begin = max(begin, first)
        return begin, max(min(end, first + count) - begin, 0)
    begin = maximum(f.index(begin), first)
    return begin, maximum(minimum(f.index(end), first + count) - begin, 0)


def seen_at(side: FilterAxis, tap: Index, pixel: Index) -> Index:
    """Return the index in the image that a tap sees at an output position."""
    return pixel * side.stride + tap * side.dilation - side.before

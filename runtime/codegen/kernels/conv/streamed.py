"""A convolution whose filter is much larger than its images: each weight is read once, in the order of memory.

A work item has a part of the depth, such as one tap of the filter, and a part of the output channels if there are few
taps. It takes some rows of its weights at a time, and adds their contributions to the sums of all pixels, which stay in
the caches; meanwhile it prefetches the following rows. A second kernel step adds the parts of the depth in order.
"""

from __future__ import annotations

from typing import Final

from runtime.codegen.costs import (
    PACKED_ELEMENT_CYCLES,
    PARTIAL_SUM_CYCLES,
    STREAMED_WEIGHT_CYCLES,
    multiply_add_cycles,
)
from runtime.codegen.ir import Function, Index, Type, Value
from runtime.codegen.kernels.conv.borders import Images
from runtime.codegen.kernels.conv.correlation import Correlation
from runtime.codegen.kernels.conv.plan import WANTED_ITEMS, ConvShape, plan_convolution
from runtime.codegen.kernels.copies import zeros
from runtime.codegen.kernels.depth import UNROLLED_DEPTH_STEPS, DepthLoop, Prefetch, Tile
from runtime.codegen.kernels.matmul.plan import shares, tile_cycles, tile_shape
from runtime.codegen.kernels.split import part_of
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.kernels.tiles import by_size, lines, tile
from runtime.codegen.machine import CACHE_LINE_BYTES, Target

WEIGHT_ROWS_TOGETHER: Final = 64
"""Rows of weights that are taken at a time: they stay in the second-level cache for all pixels."""

MAX_OUTPUT_PIXELS: Final = 64
"""Output pixels up to which these loops are used; with more, weights are read so often that copying them costs little.
"""


class Streamed:
    """The loops, forwards and with channels in one group."""

    def __init__(self, target: Target, element: Type, shape: ConvShape) -> None:
        plan = plan_convolution(target, element.bits, shape)
        self.target, self.element, self.shape = target, element, shape
        self.lanes = plan.lanes
        self.vector = element.of(self.lanes)
        self.plan, self.copies = plan, Correlation(element, shape, plan)
        self.places = shape.images * shape.rows.pixels * shape.columns.pixels
        most, vectors = tile_shape(target, self.lanes, self.places, shape.wide)
        self.tiles = [size for size, many in shares(self.places, most) for _ in range(many)]
        self.width = vectors * self.lanes
        self.panels = -(-shape.wide // self.width)
        by_rows, by_columns, pieces = plan.splits
        self.cuts = (shape.window[0] if by_rows else 1, shape.window[1] if by_columns else 1, pieces)
        self.parts = self.cuts[0] * self.cuts[1] * self.cuts[2]
        self.across = min(max(-(-target.wanted_items(WANTED_ITEMS) // self.parts), 1), self.panels)
        self.size = self.places * shape.wide
        self.deep = shape.deep // pieces
        self.rows = min(WEIGHT_ROWS_TOGETHER, self.deep)
        tiles = tile_cycles(target, self.lanes, self.places, shape.wide) * shape.taps * shape.deep
        self.cycles: float = max(tiles, shape.filters * STREAMED_WEIGHT_CYCLES)

    @staticmethod
    def applies(target: Target, element: Type, shape: ConvShape) -> bool:
        """Return True if the filter is much larger than the images, and its layout is the order of reading."""
        return (
            not shape.is_filter_transposed
            and shape.groups == 1
            and shape.images * shape.rows.pixels * shape.columns.pixels <= MAX_OUTPUT_PIXELS
            and shape.deep >= WEIGHT_ROWS_TOGETHER
            and plan_convolution(target, element.bits, shape).by_panels
        )

    def steps(self) -> KernelSteps:
        """Return the kernel steps: the copy of the images, the products, and the addition of parts."""
        shape, item = self.shape, self.element.bits // 8
        steps = multiply_add_cycles(self.target, self.lanes, shape.steps)
        copy = (
            [KernelStep(self.copies.copy, shape.images, shape.source * PACKED_ELEMENT_CYCLES)]
            if self.plan.copies
            else []
        )
        copied = [self.copies.border.size * shape.images * item] if self.plan.copies else []
        compute = KernelStep(self.compute, self.parts * self.across, max(steps, shape.filters * STREAMED_WEIGHT_CYCLES))
        join = KernelStep(self.join, self.places, self.size * self.parts * PARTIAL_SUM_CYCLES)
        return KernelSteps((*copy, compute, join), (*copied, self.parts * self.size * item))

    def compute(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the products; a work item has a part of the depth and a part of the panels."""
        f = context.f
        for item in f.range(start, stop):
            part = f.index(item) // self.across
            panels = part_of(f, self.panels, f.index(item) % self.across, self.across)
            sums = context.shared_scratch(int(self.plan.copies), self.element) + part * self.size
            for pixel in f.range(0, self.places):
                line = sums + pixel * self.shape.wide
                for panel in f.range(*panels):
                    for columns in by_size(f, self.shape.wide, self.width, f.index(panel)):
                        zeros(f, line + f.index(panel) * self.width, columns, self.vector)
            self._part(context, part, panels, sums)

    def _part(self, context: KernelContext, part: Value, panels: tuple[Index, Index], sums: Value) -> None:
        """Compute a part: its taps of the filter, and some rows of each at a time."""
        f, shape, (down, right, pieces) = context.f, self.shape, self.cuts
        w, at = context.operand(1), self._source(context)
        first = (part // (right * pieces) % down, part // pieces % right, part % pieces * self.deep)
        for i in f.range(0, shape.window[0] // down):
            for j in f.range(0, shape.window[1] // right):
                row, column = first[0] + i, first[1] + j
                left = at.at + row * (shape.rows.apart * at.row) + column * (shape.columns.apart * at.pixel) + first[2]
                weights = w + ((row * shape.window[1] + column) * shape.deep + first[2]) * shape.wide
                for k in f.range(0, self.deep // self.rows * self.rows, self.rows):
                    self._rows(context, left + k, at, weights + k * shape.wide, self.rows, panels, sums)
                if rest := self.deep % self.rows:
                    k = self.deep - rest
                    self._rows(context, left + k, at, weights + k * shape.wide, rest, panels, sums)

    def _source(self, context: KernelContext) -> Images:
        border, source = self.copies.border, context.operand(0)
        if not self.plan.copies:
            line = border.columns * border.between
            return Images(source, border.rows * line, line, border.between)
        return Images(context.shared_scratch(0, self.element), border.size, border.width * border.pixel, border.pixel)

    def _rows(
        self,
        context: KernelContext,
        left: Value,
        at: Images,
        weights: Value,
        rows: int,
        panels: tuple[Index, Index],
        sums: Value,
    ) -> None:
        """Compute the contributions of some rows of weights, panel by panel, to all pixels."""
        f, shape = context.f, self.shape
        for panel in f.range(*panels):
            ask = self._asking(f, weights + rows * shape.wide, panels, f.index(panel) - panels[0])
            for columns in by_size(f, shape.wide, self.width, f.index(panel)):
                right = weights + f.index(panel) * self.width
                first = 0
                for count in self.tiles:
                    pixels = range(first, first + count)
                    to = sums + f.index(panel) * self.width
                    offsets = [self._offset(at, pixel) for pixel in pixels]
                    before = self._loaded(f, to, pixels, columns)
                    asks = [ask] if first == 0 else []
                    depth = [DepthLoop(rows, 1, shape.wide)]
                    after = tile(Tile.of(left, offsets, right, columns, self.vector, depth, asks), before)
                    for pixel, line in zip(pixels, lines(after, count), strict=True):
                        for v, x in enumerate(line):
                            tail = min(self.lanes, columns - v * self.lanes)
                            f.store(x, to, pixel * shape.wide + v * self.lanes, tail)
                    first += count

    def _loaded(self, f: Function, at: Value, pixels: range, columns: int) -> list[Value]:
        return [
            f.load(at, pixel * self.shape.wide + v, self.lanes, min(self.lanes, columns - v))
            for pixel in pixels
            for v in range(0, columns, self.lanes)
        ]

    def _offset(self, at: Images, pixel: int) -> int:
        """Return the offset in the source from the first output pixel's window to that of a numbered pixel."""
        rows, columns = self.shape.rows, self.shape.columns
        image, within = divmod(pixel, rows.pixels * columns.pixels)
        row, column = divmod(within, columns.pixels)
        return image * at.image + row * rows.step * at.row + column * columns.step * at.pixel

    def _asking(self, f: Function, at: Value, panels: tuple[Index, Index], number: Value) -> Prefetch:
        """Return the prefetch of the next rows of weights, of which each panel of a work item prefetches its share."""
        line, fewest = CACHE_LINE_BYTES * 8 // self.element.bits, self.panels // self.across
        iterations, segment = max(self.rows // UNROLLED_DEPTH_STEPS, 1), fewest * self.width // line
        each = -(-self.rows * segment // (fewest * iterations))
        begin = at + panels[0] * self.width

        def ask(i: Index) -> None:
            first = (number * iterations + i // UNROLLED_DEPTH_STEPS) * each
            for far in range(each):
                at = first + far
                f.prefetch(begin, at // segment * self.shape.wide + at % segment * line)

        return ask

    def join(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Add the parts; work items are pixels."""
        f, wide = context.f, self.shape.wide
        for pixel in f.range(start, stop):
            sums = context.shared_scratch(int(self.plan.copies), self.element) + pixel * wide
            for c in f.range(0, wide // self.lanes * self.lanes, self.lanes):
                self._joined(context, sums + c, pixel, c, self.lanes)
            if tail := wide % self.lanes:
                self._joined(context, sums + (wide - tail), pixel, wide - tail, tail)

    def _joined(self, context: KernelContext, sums: Value, pixel: Index, c: Index, tail: int) -> None:
        f = context.f
        total = f.constant(self.vector, 0)
        for part in range(self.parts):
            total = total + f.load(sums, part * self.size, self.lanes, tail)
        if context.finish is not None:
            context.finish(total, pixel, c, tail)
            return
        f.store(total, context.outputs[0], f.index(pixel) * self.shape.wide + c, tail)

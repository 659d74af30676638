"""Depthwise convolutions: vectors are channels, and neighbouring pixels share the inputs that they read.

The convolution and the gradient of its input are one loop. A work item copies rows of an image, padded with zeros, and
goes through the copy row by row, a few pixels with all their channels at a time. So it reads and writes memory in
order. Keeping the weights of a vector of channels for all pixels would save loads, but touch one cache line of each
pixel at a time.
"""

from __future__ import annotations

from typing import Final

from runtime.codegen.costs import DEPTHWISE_TAP_CYCLES
from runtime.codegen.ir import Function, Index, Type, Value
from runtime.codegen.ir.words import minimum
from runtime.codegen.kernels.conv.axes import AxisPhase
from runtime.codegen.kernels.conv.borders import Border, Images, bordered, first_operand, onward
from runtime.codegen.kernels.conv.plan import ConvShape
from runtime.codegen.kernels.split import in_blocks, part_of
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps, batch_parts
from runtime.codegen.kernels.tiles import starts
from runtime.codegen.machine import Target

PIXELS_TOGETHER: Final = 4
"""Pixels that are computed together."""

MIN_ITEMS: Final = 4
"""Least number of work items, so that all threads have work; each copies rows that others copy too."""


class Depthwise:
    """The loops, for groups of one channel each."""

    def __init__(self, target: Target, element: Type, shape: ConvShape, is_source_computed: bool = False) -> None:
        """Plan the loops; `is_source_computed` states that the source is computed when it is copied."""
        self.element, self.shape = element, shape
        self.lanes = target.lanes(element.bits)
        self.vector = element.of(self.lanes)
        rows, columns, channels = shape.rows, shape.columns, shape.groups
        line = columns.span(columns.pixels) * channels * element.bits // 8
        most = max(target.l2_bytes // 4 // line - rows.span(1), 1) // rows.step + 1
        wanted = -(-target.wanted_items(MIN_ITEMS) // shape.images)
        self.parts = min(max(-(-rows.pixels // most), wanted), rows.pixels)
        self.most_rows = -(-rows.pixels // self.parts)
        self.is_copied = is_source_computed or rows.is_bordered or columns.is_bordered
        self.border = Border.around(rows, columns, self.most_rows, channels, channels)

    def steps(self) -> KernelSteps:
        """Return one kernel step, whose work items are ranges of the rows of each image."""
        shape = self.shape
        own = self.border.size * self.element.bits // 8 if self.is_copied else 64
        cost = shape.steps / self.lanes * DEPTHWISE_TAP_CYCLES
        own_images = batch_parts(shape.images, shape.images, 0)
        compute = KernelStep(self.compute, shape.images * self.parts, cost, batch_parts=own_images)
        return KernelSteps((compute,), (), (own,))

    def compute(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the kernel step; work items are parts of images."""
        f, shape = context.f, self.shape
        for item in f.range(start, stop):
            image = f.index(item) // self.parts
            first, end = part_of(f, shape.rows.pixels, item % self.parts, self.parts)
            at = self._source(context, image, first, end - first)
            for rows in shape.rows.phases:
                for row in f.range(first, rows.pixels if self.parts == 1 else minimum(f.index(end), rows.pixels)):
                    for columns in shape.columns.phases:
                        self.row(context, at, image, first, row, rows, columns)

    def _source(self, context: KernelContext, image: Value, first: Index, count: Index) -> Images:
        f, border, rows = context.f, self.border, self.shape.rows
        line = border.columns * border.between
        begin = onward(first_operand(context), image * (border.rows * border.columns), border.between)
        if not self.is_copied:
            assert isinstance(begin, Value), "it is in memory"
            return Images(begin + first * rows.step * line, 0, line, border.between)
        height = (count - self.most_rows) * rows.step + border.height
        return bordered(
            f, border, begin, context.thread_scratch(0, self.element), 1, first * rows.step, height, self.vector
        )

    def row(
        self,
        context: KernelContext,
        at: Images,
        image: Value,
        first: Index,
        row: Index,
        rows: AxisPhase,
        columns: AxisPhase,
    ) -> None:
        """Compute the pixels of a phase in a row, of a part that begins at row `first`."""
        f, shape = context.f, self.shape
        height, width = (sum(phase.pixels for phase in axis.phases) for axis in (shape.rows, shape.columns))
        pixel = (image * height + rows.first + row * shape.rows.every) * width + columns.first
        line = at.at + (rows.start + (row - first) * shape.rows.step) * at.row
        beside = min(PIXELS_TOGETHER, columns.pixels)
        for column in starts(f, columns.pixels, beside):
            left = line + (columns.start + column * shape.columns.step) * at.pixel
            to = pixel + column * shape.columns.every
            for c, tail in in_blocks(f, shape.groups, self.lanes):
                weights = self._weights(context, c, tail, rows, columns)
                sums = self._sums(f, left + c, at, weights, beside, tail)
                self._write(context, sums, to, c, tail)

    def _write(self, context: KernelContext, sums: list[Value], pixel: Value, c: Index, tail: int) -> None:
        every, channels = self.shape.columns.every, self.shape.groups
        for i, x in enumerate(sums):
            if context.finish is not None:
                context.finish(x, pixel + i * every, c, tail)
                continue
            context.f.store(x, context.outputs[0] + pixel * channels + c, i * every * channels, tail)

    def _weights(
        self, context: KernelContext, c: Index, tail: int, rows: AxisPhase, columns: AxisPhase
    ) -> list[tuple[int, int, Value]]:
        """Return row, column and weights of each tap of a phase."""
        w = context.operand(1)
        across = self.shape.window[1]
        return [
            (i, j, context.f.load(w + c, tap * self.shape.groups, self.lanes, tail))
            for i in range(rows.taps)
            for j in range(columns.taps)
            for tap in [(rows.filters + i * rows.onward) * across + columns.filters + j * columns.onward]
        ]

    def _sums(
        self, f: Function, left: Value, at: Images, weights: list[tuple[int, int, Value]], beside: int, tail: int
    ) -> list[Value]:
        shape = self.shape
        seen: dict[int, Value] = {}
        sums = [f.constant(self.vector, 0)] * beside
        for i, j, weight in weights:
            for pixel in range(beside):
                offset = i * shape.rows.apart * at.row
                offset += (j * shape.columns.apart + pixel * shape.columns.step) * at.pixel
                if offset not in seen:
                    seen[offset] = f.load(left, offset, self.lanes, tail)
                sums[pixel] = f.fma(seen[offset], weight, sums[pixel])
        return sums

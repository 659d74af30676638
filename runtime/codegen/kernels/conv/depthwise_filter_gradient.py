"""The gradient of a depthwise filter: the sums of every tap stay in registers for a block of pixels.

A work item is a part of all images; its sums are added to those of other parts at the end, in order. For many threads
it is a range of the channels of such a part: no channel reads another one, and parts, which set bits, stay as they are.
"""

from __future__ import annotations

from typing import Final

from runtime.codegen.costs import DEPTHWISE_TAP_CYCLES
from runtime.codegen.ir import Index, Type, Value
from runtime.codegen.ir.words import minimum
from runtime.codegen.kernels.conv.borders import Border, Images, bordered, first_operand, from_channel, onward
from runtime.codegen.kernels.conv.filter_plan import FilterAxis, equal_ranges
from runtime.codegen.kernels.conv.plan import WANTED_ITEMS
from runtime.codegen.kernels.copies import zeros
from runtime.codegen.kernels.partial_sums import reduction_step
from runtime.codegen.kernels.split import in_blocks, part_of
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps, batch_parts
from runtime.codegen.machine import Target

BLOCK_PIXELS: Final = 256
"""Pixels of a block, whose sums are one chain."""

MAX_PARTS: Final = 32
"""Upper bound on the parts of all blocks, so that chains of images on many threads have a part for each image."""

TAPS_IN_REGISTERS: Final = {32: 16, 16: 9}
"""Number of sums that stay in registers, by number of registers."""


class DepthwiseFilterGradient:
    """The loops, for images with as many groups as channels."""

    def __init__(
        self, target: Target, element: Type, images: int, rows: FilterAxis, columns: FilterAxis, channels: int
    ) -> None:
        self.element, self.images, self.rows, self.columns, self.channels = element, images, rows, columns, channels
        self.lanes = target.lanes(element.bits)
        self.vector = element.of(self.lanes)
        self.most = TAPS_IN_REGISTERS[target.registers]
        self.taps = [(i, j) for i in range(rows.window) for j in range(columns.window)]
        self.size = len(self.taps) * channels
        self.height = min(max(BLOCK_PIXELS // columns.pixels, 1), rows.pixels)
        self.blocks = images * -(-rows.pixels // self.height)
        most = images * rows.pixels * columns.pixels // BLOCK_PIXELS
        self.parts = min(max(WANTED_ITEMS, min(most, MAX_PARTS)), self.blocks)
        self.ranges = self._ranges(target)
        self.in_order = self.blocks // self.parts if self.blocks % self.parts == 0 and self.ranges == 1 else 1
        self.own_channels = channels // self.ranges
        around = Border.around(rows, columns, self.height, self.own_channels, self.own_channels)
        self.border = around._replace(between=channels)

    def _ranges(self, target: Target) -> int:
        """Return the number of equal ranges of channels, whole vectors each, that give every thread a work item."""
        if not target.has_many_threads:
            return 1
        return equal_ranges(self.channels, self.lanes, max(target.wanted_items(WANTED_ITEMS) // self.parts, 1))

    @property
    def cycles(self) -> float:
        """Cycles of all taps."""
        pixels = self.images * self.rows.pixels * self.columns.pixels
        return pixels * len(self.taps) * -(-self.channels // self.lanes) * DEPTHWISE_TAP_CYCLES

    def steps(self) -> KernelSteps:
        """Return the kernel steps: the sums of parts, and their addition."""
        item = self.element.bits // 8
        join = reduction_step(self.element, self.lanes, self.size, self.parts)
        items, in_order = self.parts * self.ranges * self.in_order, self.in_order
        own_images = batch_parts(self.parts * in_order, self.images, 0, 1, in_order=in_order)
        steps = (KernelStep(self.part, items, self.cycles, batch_parts=own_images, in_order=in_order), join)
        return KernelSteps(steps, (self.parts * self.size * item,), (self.border.size * item,))

    def part(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the sums; work items are blocks of pixels in order, or ranges of channels of parts of all blocks."""
        f = context.f
        if self.in_order > 1:
            for item in f.range(start, stop):
                to = context.shared_scratch(0, self.element) + f.index(item) // self.in_order * self.size
                with f.when((f.index(item) % self.in_order).equal(0)):
                    zeros(f, to, self.size, self.vector)
                self._block(context, f.index(item), to, f.index(0))
            return
        for item in f.range(start, stop):
            part, channel = f.index(item), f.index(0)
            if self.ranges > 1:
                part, channel = part // self.ranges, part % self.ranges * self.own_channels
            to = context.shared_scratch(0, self.element) + part * self.size + channel
            for tap in range(len(self.taps) if self.ranges > 1 else 1):
                size = self.own_channels if self.ranges > 1 else self.size
                zeros(f, to + tap * self.channels, size, self.vector)
            first, end = part_of(f, self.blocks, part, self.parts)
            for number in f.range(first, end):
                self._block(context, f.index(number), to, channel)

    def _block(self, context: KernelContext, number: Value, to: Value, channel: Value) -> None:
        """Add the sums of a block of pixels, from this channel on."""
        f, border, rows = context.f, self.border, self.rows
        dy = context.operand(1)
        down = -(-rows.pixels // self.height)
        image, first = number // down, number % down * self.height
        count: Index = self.height
        if rows.pixels % self.height:
            count = minimum(rows.pixels - first, self.height)
        begin = onward(first_operand(context), image * (border.rows * border.columns), self.channels)
        if self.ranges > 1:
            begin = from_channel(begin, channel)
        height = (count - self.height) * rows.stride + border.height
        at = bordered(
            f, border, begin, context.thread_scratch(0, self.element), 1, first * rows.stride, height, self.vector
        )
        gradient = dy + (image * rows.pixels + first) * (self.columns.pixels * self.channels) + channel
        for c, tail in in_blocks(f, self.own_channels, self.lanes):
            for start in range(0, len(self.taps), self.most):
                taps = self.taps[start : start + self.most]
                sums = self._sums(context, at, gradient + c, c, tail, count, taps)
                pixel = to + start * self.channels + c
                for i, total in enumerate(sums):
                    before = f.load(pixel, i * self.channels, self.lanes, tail)
                    f.store(before + total, pixel, i * self.channels, tail)

    def _sums(
        self,
        context: KernelContext,
        at: Images,
        gradient: Value,
        c: Index,
        tail: int,
        count: Index,
        taps: list[tuple[int, int]],
    ) -> list[Value]:
        f, rows, columns = context.f, self.rows, self.columns
        outer = f.loop(0, count, 1, [f.constant(self.vector, 0)] * len(taps))
        for row, carried in outer:
            line = at.at + row * (rows.stride * at.row) + c
            inner = f.loop(0, columns.pixels, 1, carried)
            for column, sums in inner:
                pixel = f.index(row) * columns.pixels + column
                share = f.load(gradient + pixel * self.channels, 0, self.lanes, tail)
                left = line + column * (columns.stride * at.pixel)
                offsets = [i * rows.dilation * at.row + j * columns.dilation * at.pixel for i, j in taps]
                inner.carry(
                    [
                        f.fma(f.load(left, offset, self.lanes, tail), share, total)
                        for offset, total in zip(offsets, sums, strict=True)
                    ]
                )
            outer.carry(inner.results)
        return outer.results

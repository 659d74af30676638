"""A convolution of bytes: tiles of pixels and channels in registers, along a depth of pairs of 16-bit integers.

A work item copies its part of an image as differences from the zero point, and computes with it panel by panel of the
filter. The filter is packed in panels as words: two neighbours of the depth, for each channel of the panel. An odd
element has a partner of weight 0. Sums of integers do not depend on order, so nothing here decides about bits.
"""

from __future__ import annotations

from typing import Final

from runtime.codegen.costs import PACKED_ELEMENT_CYCLES, VECTOR_MULTIPLY_ADD_CYCLES
from runtime.codegen.ir import INT32, Function, Index, Value
from runtime.codegen.ir.words import convert
from runtime.codegen.kernels.integers.shape import IntegerShape
from runtime.codegen.kernels.integers.source import WANTED_ITEMS, Source, part_of
from runtime.codegen.kernels.integers.words import INT16, difference, paired
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps, Prepack
from runtime.codegen.kernels.tiles import DepthLoop, PanelVector, by_size, lines, starts, tile
from runtime.codegen.machine import Target

TILES: Final = {16: (6, 2), 32: (8, 3)}
"""Rows and vectors of a tile by the number of vector registers."""


class Convolution:
    """The loops."""

    def __init__(self, target: Target, shape: IntegerShape, *, has_many_zeros: bool) -> None:
        """Plan the loops; `has_many_zeros` states that each channel of the filter has a zero point of its own."""
        self.has_many_zeros = has_many_zeros
        self.target, self.shape, self.lanes = target, shape, target.lanes(32)
        self.source = Source(target, shape)
        rows, vectors = TILES[target.registers]
        self.vectors = min(vectors, -(-shape.wide // self.lanes))
        self.width = self.vectors * self.lanes
        self.panels = -(-shape.wide // self.width)
        self.panel_size = shape.depth * self.width
        least = shape.columns.pixels // self.source.parts if self.source.is_line else shape.columns.pixels
        self.tile_rows = min(rows, least)
        items = shape.images * self.source.parts
        wanted = -(-target.wanted_items(WANTED_ITEMS) // items)
        self.shares = min(wanted, self.panels * shape.groups)

    def steps(self) -> KernelSteps:
        """Return the kernel steps: the packing of the filter, and the computation."""
        shape = self.shape
        sets = shape.filter_sets * shape.groups * self.panels
        prepack = Prepack((1, 3), (0,)) if shape.filter_sets == 1 else None
        weights = sets * self.panel_size
        pack = KernelStep(self.pack, sets * shape.rows.window, 2 * weights * PACKED_ELEMENT_CYCLES, prepack=prepack)
        pixels = shape.images * shape.rows.pixels * shape.columns.pixels
        copied = shape.images * self.source.parts * self.shares * self.source.size * PACKED_ELEMENT_CYCLES / 4
        vectors = pixels * shape.groups * self.panels * self.vectors
        compute = KernelStep(
            self.compute,
            shape.images * self.source.parts * self.shares,
            vectors * shape.depth * VECTOR_MULTIPLY_ADD_CYCLES + copied,
        )
        return KernelSteps((pack, compute), (weights * 4,), (self.source.size * 2,))

    # The filter.

    def pack(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Pack the filter; work items are rows of taps of a panel."""
        f, shape, w = context.f, self.shape, context.inputs[1]
        assert w is not None, "a convolution has a filter"
        taps = shape.rows.window
        matrix = taps * shape.segments * shape.length * shape.results
        for item in f.range(start, stop):
            number, tap = f.index(item) // taps, f.index(item) % taps
            panel, group = number % self.panels, number // self.panels % shape.groups
            filters = number // (self.panels * shape.groups)
            first = group * shape.wide + panel * self.width
            to = context.shared_scratch(0, INT32) + (number * self.panel_size + tap * self._row_words)
            for count in by_size(f, shape.wide, self.width, panel):
                zeros = self._filter_zeros(context, first, count)
                for segment in f.range(0, shape.segments):
                    row = (tap * shape.segments + segment) * shape.length
                    at = w + (filters * matrix + row * shape.results + first)
                    self._pack_segment(f, at, to + f.index(segment) * (shape.words * self.width), count, zeros)

    @property
    def _row_words(self) -> int:
        return self.shape.segments * self.shape.words * self.width

    def _filter_zeros(self, context: KernelContext, first: Value, count: int) -> list[Value]:
        """Return the zero points of the vectors of a panel."""
        f, zero = context.f, context.inputs[3]
        assert zero is not None, "the filter has a zero point"
        if not self.has_many_zeros:
            return [f.splat(convert(f.load(zero), INT16), self.lanes)] * self.vectors
        return [
            convert(f.load(zero + first, j, self.lanes, min(self.lanes, count - j)), INT16)
            for j in range(0, count, self.lanes)
        ]

    def _pack_segment(self, f: Function, at: Value, to: Value, count: int, zeros: list[Value]) -> None:
        """Pack a part of a row of taps: words of two successive elements, for `count` channels."""
        results, pairs = self.shape.results, self.shape.length // 2

        def element(row: Index, v: int) -> Value:
            j = v * self.lanes
            codes = f.load(at + f.index(row) * results, j, self.lanes, min(self.lanes, count - j))
            return difference(codes, zeros[v])

        vectors = range(-(-count // self.lanes))
        for pair in f.range(0, pairs):
            for v in vectors:
                word = paired(element(f.index(pair) * 2, v), element(f.index(pair) * 2 + 1, v))
                f.store(word, to + f.index(pair) * self.width, v * self.lanes)
        if self.shape.length % 2:
            for v in vectors:
                word = paired(element(2 * pairs, v), f.constant(INT16.of(self.lanes), 0))
                f.store(word, to, pairs * self.width + v * self.lanes)

    # The convolution.

    def compute(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the computation; work items are parts of images, for a share of the panels."""
        f, shape, source = context.f, self.shape, self.source
        total = shape.columns.pixels if source.is_line else shape.rows.pixels
        panels = shape.groups * self.panels
        for item in f.range(start, stop):
            share, part = f.index(item) % self.shares, f.index(item) // self.shares
            image = part // source.parts
            first, end = part_of(f, total, part % source.parts, source.parts)
            left = source.copy(context, image, first)
            for number in f.range(*part_of(f, panels, share, self.shares)):
                panel = f.index(number) % self.panels
                group = f.index(number) // self.panels
                filters = image * panels + number if shape.filter_sets > 1 else f.index(number)
                right = context.shared_scratch(0, INT32) + filters * self.panel_size
                channel = group * shape.wide + panel * self.width
                for count in by_size(f, shape.wide, self.width, panel):
                    self._part(context, image, (first, end), left + group * shape.deep, right, channel, count)

    def _part(
        self,
        context: KernelContext,
        image: Value,
        part: tuple[Index, Index],
        left: Value,
        right: Value,
        channel: Value,
        count: int,
    ) -> None:
        """Compute a part of an image for the channels of a panel."""
        f, shape, (first, end) = context.f, self.shape, part
        width = shape.columns.pixels
        if self.source.is_line:
            pixel = image * width + first
            many = f.index(end) - first if self.source.parts > 1 else width
            self._line(context, left, right, many, pixel, channel, count)
            return
        for row in f.range(first, end):
            at = left + (f.index(row) - first) * (shape.rows.stride * self.source.row)
            self._line(context, at, right, width, (image * shape.rows.pixels + row) * width, channel, count)

    def _line(
        self, context: KernelContext, left: Value, right: Value, pixels: Index, pixel: Value, channel: Value, count: int
    ) -> None:
        """Compute successive pixels of a row."""
        f, shape, lanes = context.f, self.shape, self.lanes
        step = shape.columns.stride * shape.channels
        offsets = [i * step for i in range(self.tile_rows)]
        vectors = [PanelVector(j, lanes) for j in range(0, count, lanes)]
        for column in starts(f, pixels, self.tile_rows):
            at = left + f.index(column) * step
            sums = tile(f, at, offsets, right, count, INT32.of(lanes), self._loops(), indices=vectors)
            for i, row in enumerate(lines(sums, self.tile_rows)):
                for v, x in enumerate(row):
                    finish(context, x, pixel + column + i, channel + v * lanes, min(lanes, count - v * lanes), shape)

    def _loops(self) -> list[DepthLoop]:
        """Return the loops of the depth, whose steps are elements of the source and words of the filter."""
        shape, words = self.shape, self.shape.words * self.width
        loops = [
            DepthLoop(shape.rows.window, shape.rows.dilation * self.source.row, shape.segments * words),
            DepthLoop(shape.segments, shape.columns.dilation * shape.channels, words),
        ]
        return [*(loop for loop in loops if loop.iterations != 1), DepthLoop(shape.words, 2, self.width)]


def finish(context: KernelContext, x: Value, pixel: Value, channel: Index, count: int, shape: IntegerShape) -> None:
    """Pass a vector of channels on, or write it."""
    if context.finish is not None:
        context.finish(x, pixel, channel, count)
        return
    context.f.store(x, context.outputs[0] + (pixel * shape.results + channel), 0, count)

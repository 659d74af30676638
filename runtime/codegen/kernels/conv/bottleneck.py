"""An inverted bottleneck, row tile by row tile: a 1x1 convolution to more channels, a depthwise one, and one to fewer.

The wide images are never in memory as a whole. A work item is a range of output rows of an image. It computes the wide
rows that their windows see in scratch of its thread, filters them, and computes the result from these, while all of it
is in caches. A thread that continues with the next work item of an image keeps the rows that both need.

Each convolution has the same sums as by itself, so no bit depends on this fusion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from runtime.codegen.costs import DEPTHWISE_TAP_CYCLES, PACKED_ELEMENT_CYCLES, multiply_add_cycles
from runtime.codegen.ir import Index, Type, Value
from runtime.codegen.ir.words import maximum, minimum, where
from runtime.codegen.kernels.conv.borders import Images
from runtime.codegen.kernels.conv.depthwise import Depthwise
from runtime.codegen.kernels.conv.plan import MAX_CHAIN_DEPTH, WANTED_ITEMS, ConvShape
from runtime.codegen.kernels.copies import copied, zeros
from runtime.codegen.kernels.depth import DepthLoop, Tile
from runtime.codegen.kernels.matmul import Matrix
from runtime.codegen.kernels.matmul.packing import packed_right
from runtime.codegen.kernels.matmul.plan import tile_shape
from runtime.codegen.kernels.steps import FinishVector, KernelContext, KernelStep, KernelSteps, Prepack
from runtime.codegen.kernels.tiles import by_size, lines, prefetching, starts, tile
from runtime.codegen.machine import Target

CACHE_SHARE_OF_SCRATCH: Final = 8
"""Divisor of the second-level cache: a work item's scratch takes at most an eighth, unless it has one output row."""


class BottleneckOperands(NamedTuple):
    """The operands and the epilogues of the convolutions.

    Attributes:
        source: address of the images.
        filters: addresses of the three filters.
        widened, filtered: functions that compute the operand of the next convolution from a finished vector.
        finish: function that takes vectors of the result.
    """

    source: Value
    filters: tuple[Value, Value, Value]
    widened: Callable[[Value, Index, Index, int], Value]
    filtered: Callable[[Value, Index, Index, int], Value]
    finish: FinishVector


class _Panels(NamedTuple):
    """A 1x1 filter as panels.

    Attributes:
        deep, wide: its rows and columns.
        size, width: pixels and columns of a tile.
        packed: number of the shared scratch with its panels, if they are copied; else -1.
    """

    deep: int
    wide: int
    size: int
    width: int
    packed: int

    @property
    def number(self) -> int:
        """The number of panels."""
        return -(-self.wide // self.width)


class _Panel(NamedTuple):
    """A panel: its operand, its first channel, and its number of channels."""

    of: _Panels
    right: Matrix
    channel: Value
    columns: int


class Bottleneck:
    """The loops of three convolutions: 1x1, depthwise, 1x1."""

    def __init__(
        self, target: Target, element: Type, shapes: tuple[ConvShape, ConvShape, ConvShape], *, invariant: bool
    ) -> None:
        """Plan the loops; with `invariant`, filters stay the same between steps, so copies of them are made once."""
        self.target, self.element = target, element
        self.widen, self.shape, self.narrow = shapes
        self.lanes = target.lanes(element.bits)
        self.vector = element.of(self.lanes)
        self.channels, rows, columns = self.shape.groups, self.shape.rows, self.shape.columns
        self.width = columns.span(columns.pixels)
        self.inside = min(columns.source, self.width - columns.before)
        self.line = self.width * self.channels
        self.rows = next(size for size in range(rows.pixels, 0, -1) if rows.pixels % size == 0 and self._fits(size))
        self.height = rows.span(self.rows)
        self.kept = max(self.height - self.rows * rows.step, 0)
        self.row_tiles = rows.pixels // self.rows
        self.places = self.rows * columns.pixels
        self.packs = invariant or self.shape.images >= WANTED_ITEMS
        self.widening = self._panels(self.widen, self.inside, 0)
        self.narrowing = self._panels(self.narrow, self.places, int(self.widening.packed >= 0))

    @staticmethod
    def takes(shapes: tuple[ConvShape, ConvShape, ConvShape]) -> bool:
        """Return True if these convolutions are a bottleneck, and each of their sums is one chain."""
        widen, shape, narrow = shapes
        alone = shape.deep == shape.wide == 1 and shape.groups > 1
        ends = (widen, narrow)
        plain = all(
            end.taps == end.groups == end.rows.step == end.columns.step == 1
            and not (end.rows.is_bordered or end.columns.is_bordered)
            for end in ends
        )
        borders = min(shape.rows.before, shape.columns.before) >= 0
        return alone and plain and borders and max(end.deep for end in ends) <= MAX_CHAIN_DEPTH

    def _fits(self, rows: int) -> bool:
        if self.shape.images < WANTED_ITEMS and rows > max(self.shape.rows.pixels // 2, 1):
            return False
        size = self.shape.rows.span(rows) * self.line + rows * self.shape.columns.pixels * self.channels
        return rows == 1 or size * self.element.bits // 8 <= self.target.l2_bytes // CACHE_SHARE_OF_SCRATCH

    def _panels(self, shape: ConvShape, pixels: int, number: int) -> _Panels:
        """Return the panels of a filter, for tiles of at most `pixels` pixels; a single panel needs no copy."""
        size, vectors = tile_shape(self.target, self.lanes, pixels, shape.wide)
        width = vectors * self.lanes
        return _Panels(shape.deep, shape.wide, size, width, number if self.packs and shape.wide > width else -1)

    def steps(self, parts: Callable[[KernelContext], BottleneckOperands]) -> KernelSteps:
        """Return one kernel step, after those that copy filters; operands are numbered convolution by convolution."""
        cost = multiply_add_cycles(self.target, self.lanes, self.widen.steps + self.narrow.steps)
        cost += self.shape.steps / self.lanes * DEPTHWISE_TAP_CYCLES
        item = self.element.bits // 8
        own = self.height * self.line * item, self.places * self.channels * item

        def write(context: KernelContext, start: Value, stop: Value) -> None:
            _Emission(self, context, parts(context)).write(start, stop)

        packs = [
            self._pack(parts, panels, number)
            for panels, number in ((self.widening, 0), (self.narrowing, 2))
            if panels.packed >= 0
        ]
        few = self.shape.images < WANTED_ITEMS
        steps = (
            *(kernel_step for kernel_step, _ in packs),
            KernelStep(write, self.shape.images * self.row_tiles, cost, prefers_ranges=few),
        )
        return KernelSteps(steps, tuple(size * item for _, size in packs), own)

    def _pack(
        self, parts: Callable[[KernelContext], BottleneckOperands], panels: _Panels, number: int
    ) -> tuple[KernelStep, int]:
        """Return the kernel step that copies a numbered filter, and the size of the copy; work items are panels."""

        def write(context: KernelContext, start: Value, stop: Value) -> None:
            f, to = context.f, context.shared_scratch(panels.packed, self.element)
            filter = Matrix(parts(context).filters[number], panels.wide)
            for item in f.range(start, stop):
                panel, at = f.index(item) * panels.width, to + f.index(item) * (panels.width * panels.deep)
                for columns in by_size(f, panels.wide, panels.width, f.index(item)):
                    matrix = filter.moved(0, panel)
                    packed_right(f, matrix, at, panels.deep, columns, panels.width, panels.deep, self.vector)

        prepack = Prepack((2 * number + 1,), (panels.packed,))
        cost = panels.deep * panels.wide * PACKED_ELEMENT_CYCLES
        return KernelStep(write, panels.number, cost, prepack=prepack), panels.number * panels.width * panels.deep


class _Emission:
    def __init__(self, plan: Bottleneck, context: KernelContext, parts: BottleneckOperands) -> None:
        self.plan, self.context, self.f, self.parts = plan, context, context.f, parts
        self.near, self.filtered = context.thread_scratch(0, plan.element), context.thread_scratch(1, plan.element)
        self.depthwise = Depthwise(plan.target, plan.element, plan.shape)

    def write(self, start: Value, stop: Value) -> None:
        """Write the kernel step; work items are row tiles of images."""
        f, plan, rows = self.f, self.plan, self.plan.shape.rows
        before = plan.shape.columns.before * plan.channels
        end = before + plan.inside * plan.channels
        for row in f.range(0, plan.height):
            zeros(f, self.near + row * plan.line, before, plan.vector)
            zeros(f, self.near + (row * plan.line + end), plan.line - end, plan.vector)
        for item in f.range(start, stop):
            image, row_tile = f.index(item) // plan.row_tiles, f.index(item) % plan.row_tiles
            first = row_tile * plan.rows
            is_first = row_tile.equal(0) | f.index(item).equal(start)
            with f.when(~is_first):
                copied(f, self.near + plan.rows * rows.step * plan.line, self.near, plan.kept * plan.line, plan.vector)
            begin = where(is_first, f.index(0), f.index(plan.kept))
            self._rows(image, first * rows.step - rows.before, begin)
            self._filter(image, first)
            self._narrow((image * rows.pixels + first) * plan.shape.columns.pixels)

    def _rows(self, image: Value, top: Value, begin: Value) -> None:
        """Compute wide rows, from row `begin` of the scratch on; its row 0 is row `top` of the image."""
        f, plan, columns = self.f, self.plan, self.plan.shape.columns
        source = plan.shape.rows.source
        low = minimum(maximum(0 - top, begin), plan.height)
        high = maximum(minimum(source - top, plan.height), low)
        inside, before = plan.inside * plan.channels, columns.before * plan.channels
        for start, stop in ((begin, low), (high, f.index(plan.height))):
            for row in f.range(start, stop):
                zeros(f, self.near + (f.index(row) * plan.line + before), inside, plan.vector)
        pixel = (image * source + top) * columns.source

        def widened(panel: _Panel) -> None:
            for row in f.range(low, high):
                at = pixel + f.index(row) * columns.source
                to = self.near + (f.index(row) * plan.line + before)
                self._pixels(panel, self.parts.source + at * plan.widen.deep, plan.inside, self._widened(at, to))

        self._panels(0, plan.widening, widened)

    def _widened(self, pixel: Value, to: Value) -> FinishVector:
        """Return the epilogue that stores a row of wide pixels at `to`; `pixel` is the number of the first one."""

        def finish(x: Value, i: Index, channel: Index, count: int) -> None:
            result = self.parts.widened(x, pixel + i, channel, count)
            self.f.store(result, to + (i * self.plan.channels + channel), 0, count)

        return finish

    def _filter(self, image: Value, first: Value) -> None:
        """Compute the depthwise convolution for output rows from `first` on."""
        f, plan, rows, columns = self.f, self.plan, self.plan.shape.rows, self.plan.shape.columns
        [of_rows], [of_columns] = rows.phases, columns.phases
        before = (image * rows.pixels + first) * columns.pixels
        to = self.filtered + before * -plan.channels

        def finish(x: Value, pixel: Index, channel: Index, count: int) -> None:
            result = self.parts.filtered(x, pixel, channel, count)
            f.store(result, to + (pixel * plan.channels + channel), 0, count)

        inputs = [self.near, self.parts.filters[1]]
        context = self.context._replace(inputs=inputs, finish=finish)
        at = Images(self.near, 0, plan.line, plan.channels)
        for row in f.range(0, plan.rows):
            self.depthwise.row(context, at, image, first, first + row, of_rows, of_columns)

    def _narrow(self, pixel: Value) -> None:
        """Compute the result at the pixels of the work item, from `pixel` on."""

        def finish(x: Value, i: Index, channel: Index, count: int) -> None:
            self.parts.finish(x, pixel + i, channel, count)

        self._panels(2, self.plan.narrowing, lambda of: self._pixels(of, self.filtered, self.plan.places, finish))

    def _panels(self, number: int, panels: _Panels, go: Callable[[_Panel], None]) -> None:
        """Go through the panels of a numbered filter."""
        f, plan = self.f, self.plan
        for panel in f.range(0, panels.number):
            channel = f.index(panel) * panels.width
            right = Matrix(self.parts.filters[number] + channel, panels.wide)
            if panels.packed >= 0:
                packed = self.context.shared_scratch(panels.packed, plan.element)
                right = Matrix(packed + channel * panels.deep, panels.width)
            for columns in by_size(f, panels.wide, panels.width, f.index(panel)):
                go(_Panel(panels, right, channel, columns))

    def _pixels(self, panel: _Panel, left: Value, count: int, finish: FinishVector) -> None:
        """Compute `count` pixels from an address on; the epilogue gets the number of each pixel."""
        f, lanes, deep = self.f, self.plan.lanes, panel.of.deep
        size = min(panel.of.size, count)
        depth, rows = [DepthLoop(deep, 1, panel.right.row)], [i * deep for i in range(size)]
        for first in starts(f, count, size):
            at = left + f.index(first) * deep
            asks = [prefetching(f, at + size * deep, size)]
            sums = tile(Tile.of(at, rows, panel.right.at, panel.columns, self.plan.vector, depth, asks))
            for i, line in enumerate(lines(sums, size)):
                for v, x in enumerate(line):
                    tail = min(lanes, panel.columns - v * lanes)
                    finish(x, f.index(first) + i, panel.channel + v * lanes, tail)

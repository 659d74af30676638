"""A convolution of bytes: tiles of pixels and channels in registers, along a depth of words.

A work item copies its part of an image as elements of words, and computes with it panel by panel of the filter. The
filter is packed in panels as words: two or four neighbours of the depth, for each channel of the panel. The last word
of a segment is filled up with weights of 0. Words of four have `corrections`. Sums of integers do not depend on order,
so nothing here decides about bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from runtime.codegen.costs import PACKED_ELEMENT_CYCLES, VECTOR_MULTIPLY_ADD_CYCLES
from runtime.codegen.ir import INT32, UINT8, Function, Index, Value
from runtime.codegen.ir.words import convert
from runtime.codegen.kernels.depth import DepthLoop, PanelVector, Tile
from runtime.codegen.kernels.integers.corrections import Corrections, Terms
from runtime.codegen.kernels.integers.shape import IntegerShape
from runtime.codegen.kernels.integers.source import WANTED_ITEMS, Source
from runtime.codegen.kernels.integers.sums import has_matrix_form, rows_of_sums
from runtime.codegen.kernels.integers.words import INT16, SIGN, difference, elements_of_word, joined
from runtime.codegen.kernels.split import part_of
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps, Prepack
from runtime.codegen.kernels.tiles import by_size, starts
from runtime.codegen.machine import Target

TILES: Final = {(16, 2): (4, 2), (16, 4): (6, 2), (32, 2): (8, 3), (32, 4): (8, 3)}
"""Rows and vectors of a tile by the number of vector registers, and of elements of a word: products of pairs need one
register more."""

MATRIX_TILE: Final = (32, 2)
"""Rows and vectors of a tile of AMX: two registers of the left operand, and two of the right one."""


_Line = tuple[Value, Index, Value]
"""The address of the first pixel of a line, the number of its pixels, and the number of the first in its part."""


class _Channels(NamedTuple):
    """A panel: its words, its first channel, their number, and the corrections with the sums of the windows."""

    right: Value
    first: Value
    number: int
    terms: Terms | None = None
    windows: Value | None = None


class Convolution:
    """The loops."""

    def __init__(self, target: Target, shape: IntegerShape, *, has_many_zeros: bool) -> None:
        """Plan the loops; `has_many_zeros` states that each channel of the filter has a zero point of its own."""
        self.has_many_zeros = has_many_zeros
        self.target, self.shape, self.lanes = target, shape, target.lanes(32)
        self.elements = elements_of_word(target)
        self.element = INT16 if self.elements == 2 else UINT8
        self.words = shape.words(self.elements)
        self.source = Source(target, shape, self.element)
        self.corrections: Corrections | None = None
        if self.element == UINT8:
            self.corrections = Corrections(shape, self.lanes, has_many_zeros=has_many_zeros)
        least = shape.columns.pixels // self.source.parts if self.source.is_line else shape.columns.pixels
        words, pixels = shape.rows.window * shape.segments * self.words, shape.rows.pixels * shape.columns.pixels
        vectors = shape.groups * -(-shape.wide // self.lanes)
        self.in_matrix_tiles = has_matrix_form(target, least, words, shape.images * pixels * vectors * words)
        rows, vectors = MATRIX_TILE if self.in_matrix_tiles else TILES[target.registers, self.elements]
        self.tile_rows = min(rows, least)
        self.vectors = min(vectors, -(-shape.wide // self.lanes))
        self.width = self.vectors * self.lanes
        self.panels = -(-shape.wide // self.width)
        self.row_words = (shape.segments * self.words + (self.corrections is not None)) * self.width
        self.panel_size = shape.rows.window * self.row_words
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
            vectors * shape.rows.window * shape.segments * self.words * VECTOR_MULTIPLY_ADD_CYCLES + copied,
        )
        windows = self.part_pixels * shape.groups * 4 if self.corrections is not None else 0
        return KernelSteps((pack, compute), (weights * 4,), (self.source.nbytes, windows))

    @property
    def part_pixels(self) -> int:
        """Most pixels of a part."""
        return self.source.most * (1 if self.source.is_line else self.shape.columns.pixels)

    # The filter.

    def pack(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Pack the filter; work items are rows of taps of a panel."""
        f, shape, w = context.f, self.shape, context.operand(1)
        taps = shape.rows.window
        matrix = taps * shape.segments * shape.length * shape.results
        for item in f.range(start, stop):
            number, tap = f.index(item) // taps, f.index(item) % taps
            panel, group = number % self.panels, number // self.panels % shape.groups
            filters = number // (self.panels * shape.groups)
            first = group * shape.wide + panel * self.width
            to = context.shared_scratch(0, INT32) + (number * self.panel_size + tap * self.row_words)
            for count in by_size(f, shape.wide, self.width, panel):
                zeros = self._filter_zeros(context, first, count)
                for segment in f.range(0, shape.segments):
                    row = (tap * shape.segments + segment) * shape.length
                    at = w + (filters * matrix + row * shape.results + first)
                    self._pack_segment(f, at, to + f.index(segment) * (self.words * self.width), count, zeros)
                if self.corrections is not None:
                    self.corrections.store_sums(f, to, shape.segments * self.words, self.width)

    def _filter_zeros(self, context: KernelContext, first: Value, count: int) -> list[Value]:
        """Return the zero points of the vectors of a panel; that of signed bytes if they are corrected afterwards."""
        f, zero = context.f, context.operand(3)
        if self.corrections is not None:
            return [f.constant(UINT8.of(self.lanes), SIGN)] * self.vectors
        if not self.has_many_zeros:
            return [f.splat(convert(f.load(zero), INT16), self.lanes)] * self.vectors
        return [
            convert(f.load(zero + first, j, self.lanes, min(self.lanes, count - j)), INT16)
            for j in range(0, count, self.lanes)
        ]

    def _pack_segment(self, f: Function, at: Value, to: Value, count: int, zeros: list[Value]) -> None:
        """Pack a part of a row of taps: words of successive elements, for `count` channels."""
        results, (whole, rest) = self.shape.results, divmod(self.shape.length, self.elements)

        def element(row: Index, v: int) -> Value:
            j = v * self.lanes
            codes = f.load(at + f.index(row) * results, j, self.lanes, min(self.lanes, count - j))
            return difference(codes, zeros[v]) if self.element == INT16 else codes - zeros[v]

        vectors = range(-(-count // self.lanes))
        for word in f.range(0, whole):
            for v in vectors:
                elements = [element(f.index(word) * self.elements + i, v) for i in range(self.elements)]
                f.store(joined(elements), to + f.index(word) * self.width, v * self.lanes)
        if rest:
            for v in vectors:
                elements = [element(whole * self.elements + i, v) for i in range(rest)]
                f.store(joined(elements), to, whole * self.width + v * self.lanes)

    # The convolution.

    def compute(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the computation; work items are parts of images, for a share of the panels."""
        f, shape, source = context.f, self.shape, self.source
        total, width = (shape.columns.pixels, 1) if source.is_line else (shape.rows.pixels, shape.columns.pixels)
        panels = shape.groups * self.panels
        for item in f.range(start, stop):
            share, part = f.index(item) % self.shares, f.index(item) // self.shares
            image = part // source.parts
            first, end = part_of(f, total, part % source.parts, source.parts)
            lines = partial(self._lines, f, (first, end), source.copy(context, image, first))
            self._sum_windows(context, lines)
            for number in f.range(*part_of(f, panels, share, self.shares)):
                panel = f.index(number) % self.panels
                group = f.index(number) // self.panels
                filters = image * panels + number if shape.filter_sets > 1 else f.index(number)
                right = context.shared_scratch(0, INT32) + filters * self.panel_size
                for count in by_size(f, shape.wide, self.width, panel):
                    channels = self._channels(context, right, group, panel, count)
                    for left, pixels, local in lines(group):
                        self._line(context, left, channels, pixels, (image * total + first) * width + local, local)

    def _lines(self, f: Function, part: tuple[Index, Index], left: Value, group: Index) -> Iterator[_Line]:
        """Yield the lines of a part for a group, whose elements lie behind an address."""
        (first, end), width, left = part, self.shape.columns.pixels, left + group * self.shape.deep
        if self.source.is_line:
            yield left, f.index(end) - first if self.source.parts > 1 else width, f.index(0)
            return
        for row in f.range(first, end):
            number = f.index(row) - first
            yield left + number * (self.shape.rows.stride * self.source.row), width, number * width

    def _sum_windows(self, context: KernelContext, lines: Callable[[Index], Iterator[_Line]]) -> None:
        """Write the sums of the windows of a part, if sums are corrected by them."""
        if self.corrections is None:
            return
        f, step = context.f, self.shape.columns.stride * self.shape.channels
        offsets = [i * step for i in range(self.tile_rows)]
        with self.corrections.needed(context):
            for group in f.range(0, self.shape.groups):
                windows = context.thread_scratch(1, INT32) + f.index(group) * self.part_pixels
                for left, pixels, local in lines(group):
                    for column in starts(f, pixels, self.tile_rows):
                        at, to = left + f.index(column) * step, windows + (local + column)
                        self.corrections.store_windows(
                            f, at, offsets, self._loops()[:-1], to, in_matrix_tiles=self.in_matrix_tiles
                        )

    def _channels(self, context: KernelContext, right: Value, group: Value, panel: Value, count: int) -> _Channels:
        channel = group * self.shape.wide + panel * self.width
        if self.corrections is None:
            return _Channels(right, channel, count)
        taps = range(1, self.shape.rows.window + 1)
        terms = self.corrections.terms(
            context, [right + (i * self.row_words - self.width) for i in taps], channel, count
        )
        return _Channels(right, channel, count, terms, context.thread_scratch(1, INT32) + group * self.part_pixels)

    def _line(
        self, context: KernelContext, left: Value, channels: _Channels, pixels: Index, pixel: Value, local: Value
    ) -> None:
        """Compute successive pixels of a row, from one that has these numbers among all, and in its part."""
        f, shape, lanes, (right, channel, count, terms, windows) = context.f, self.shape, self.lanes, channels
        step = shape.columns.stride * shape.channels
        offsets = [i * step for i in range(self.tile_rows)]
        vectors = [PanelVector(j, lanes) for j in range(0, count, lanes)]
        for column in starts(f, pixels, self.tile_rows):
            at = left + f.index(column) * step
            begun = None
            if terms is not None and windows is not None:
                begun = partial(terms.of_pixel, windows + (local + column))
            operands = Tile(at, offsets, right, vectors, INT32.of(lanes), self._loops())
            for i, row in enumerate(rows_of_sums(operands, begun, in_matrix_tiles=self.in_matrix_tiles)):
                for v, x in enumerate(row):
                    finish(context, x, pixel + column + i, channel + v * lanes, min(lanes, count - v * lanes), shape)

    def _loops(self) -> list[DepthLoop]:
        """Return the loops of the depth, whose steps are elements of the source and words of the filter."""
        shape, words = self.shape, self.words * self.width
        loops = [
            DepthLoop(shape.rows.window, shape.rows.dilation * self.source.row, self.row_words),
            DepthLoop(shape.segments, shape.columns.dilation * shape.channels, words),
        ]
        return [
            *(loop for loop in loops if loop.iterations != 1),
            DepthLoop(self.words, self.elements, self.width),
        ]


def finish(context: KernelContext, x: Value, pixel: Value, channel: Index, count: int, shape: IntegerShape) -> None:
    """Pass a vector of channels on, or write it."""
    if context.finish is not None:
        context.finish(x, pixel, channel, count)
        return
    context.f.store(x, context.outputs[0] + (pixel * shape.results + channel), 0, count)

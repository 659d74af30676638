"""Convolutions of bytes whose groups have one channel, by products of words.

A word has two or four taps of a column of a window, for one channel. For each output row, the words of all columns are
put together once from the rows of the image; each of them serves all taps along the row. Pairs are differences from the
zero points. Sums of products of four codes lack what `corrections` explains; here the terms are computed with each
vector of channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from runtime.codegen.costs import DEPTHWISE_TAP_CYCLES, PACKED_ELEMENT_CYCLES
from runtime.codegen.ir import INT32, UINT8, Function, Index, Value
from runtime.codegen.ir.words import convert, where
from runtime.codegen.kernels.copies import filled
from runtime.codegen.kernels.integers.convolution import finish
from runtime.codegen.kernels.integers.shape import IntegerShape
from runtime.codegen.kernels.integers.words import (
    INT16,
    SIGN,
    difference,
    elements_of_word,
    has_signed_products,
    joined,
    multiply_add,
    zero_point,
)
from runtime.codegen.kernels.split import part_of
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps, Prepack
from runtime.codegen.kernels.tiles import by_size, starts
from runtime.codegen.machine import Target

PIXELS_TOGETHER: Final = {16: 4, 32: 6}
"""Most pixels that are computed together, by the number of vector registers."""

MAX_TAPS: Final = 32
"""Upper bound on the taps, which are written out."""

WANTED_ITEMS: Final = 8
"""Number of work items that gives each of few threads a share."""


class DepthwiseWords:
    """The loops."""

    def __init__(self, target: Target, shape: IntegerShape, *, has_many_zeros: bool) -> None:
        """Plan the loops; `has_many_zeros` states that each channel of the filter has a zero point of its own."""
        self.shape, self.has_many_zeros, self.lanes = shape, has_many_zeros, target.lanes(32)
        self.elements = elements_of_word(target)
        self.parts = max(min(-(-target.wanted_items(WANTED_ITEMS) // shape.images), shape.rows.pixels), 1)
        self.groups = -(-shape.rows.window // self.elements)
        self.across = -(-shape.groups // self.lanes) * self.lanes
        self.words = self.groups * shape.columns.window
        tiles = -(-shape.columns.pixels // PIXELS_TOGETHER[target.registers])
        self.beside = -(-shape.columns.pixels // tiles)
        self.row = shape.columns.extent * shape.channels
        self.line = shape.columns.source * shape.channels

    @staticmethod
    def applies(target: Target, shape: IntegerShape) -> bool:
        """Return True for groups of one channel with columns of several taps, where words have an instruction."""
        taps = shape.rows.window * shape.columns.window
        is_depthwise = shape.groups > 1 and shape.deep == shape.wide == 1
        has_instruction = target.has_byte_products or target.architecture == "x86_64"
        return has_instruction and is_depthwise and shape.rows.window > 1 and taps <= MAX_TAPS

    def steps(self) -> KernelSteps:
        """Return the kernel steps: the packing of the filter, and the computation."""
        shape, weights = self.shape, (self.words + 1) * self.across
        cost = 4 * weights * PACKED_ELEMENT_CYCLES
        pack = KernelStep(self.pack, self.across // self.lanes, cost, prepack=Prepack((1, 3), (0,)))
        pixels = shape.images * shape.rows.pixels * shape.columns.pixels
        taps = self.words + self.groups * shape.columns.stride  # those of the image are put together once
        cost = pixels * self.across / self.lanes * taps * DEPTHWISE_TAP_CYCLES
        compute = KernelStep(self.compute, shape.images * self.parts, cost)
        scratch = (4 * (self.groups * self.row + self.lanes), self.line + self.lanes)
        return KernelSteps((pack, compute), (weights * 4,), scratch)

    # The filter.

    def pack(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the words of weights, those of four minus 128, and their sums behind; items are vectors of channels."""
        f, shape, w = context.f, self.shape, context.operand(1)
        for item in f.range(start, stop):
            first = f.index(item) * self.lanes
            to = context.shared_scratch(0, INT32) + first
            for count in by_size(f, shape.groups, self.lanes, f.index(item)):
                zero = self._filter_zero(context, first, count)
                total = f.constant(INT32.of(self.lanes), 0)
                for number in range(self.words):
                    group, j = divmod(number, shape.columns.window)
                    taps = [(i * shape.columns.window + j) * shape.groups for i in self._rows(group)]
                    codes = [f.load(w + first, tap, self.lanes, count) for tap in taps]
                    elements = [each - zero if self.is_of_bytes else difference(each, zero) for each in codes]
                    f.store(joined(elements), to, number * self.across)
                    for each in codes:
                        total = total + (convert(each, INT32) - SIGN)
                f.store(total, to, self.words * self.across)

    @property
    def is_of_bytes(self) -> bool:
        """True if words consist of four codes."""
        return self.elements == 4

    def _rows(self, group: int) -> range:
        """Return the taps of a column that the words of a group have."""
        return range(group * self.elements, min((group + 1) * self.elements, self.shape.rows.window))

    def _filter_zero(self, context: KernelContext, first: Index, count: int) -> Value:
        """Return the zero point of `count` channels; that of signed bytes if sums are corrected afterwards."""
        f, zero = context.f, context.operand(3)
        if self.is_of_bytes:
            return f.constant(UINT8.of(self.lanes), SIGN)
        if not self.has_many_zeros:
            return f.splat(convert(f.load(zero), INT16), self.lanes)
        return convert(f.load(zero + first, 0, self.lanes, count), INT16)

    # The convolution.

    def compute(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the computation; work items are parts of images."""
        f, shape, x = context.f, self.shape, context.operand(0)
        padding = context.thread_scratch(1, UINT8)
        zero = convert(zero_point(context, 2), UINT8)
        for item in f.range(start, stop):
            image = f.index(item) // self.parts
            filled(f, padding, self.line, f.splat(zero, self.lanes))
            for row in f.range(*part_of(f, shape.rows.pixels, f.index(item) % self.parts, self.parts)):
                for group in range(self.groups):
                    self._join(context, x + image * (shape.rows.source * self.line), row, group, padding)
                pixel = (image * shape.rows.pixels + row) * shape.columns.pixels
                if self.has_many_zeros or not self.is_of_bytes:
                    self._row(context, pixel, is_symmetric=not self.is_of_bytes)
                    continue
                is_symmetric = zero_point(context, 3).equal(SIGN)
                with f.when(is_symmetric):
                    self._row(context, pixel, is_symmetric=True)
                with f.when(~is_symmetric):
                    self._row(context, pixel, is_symmetric=False)

    def _join(self, context: KernelContext, image: Value, row: Index, group: int, padding: Value) -> None:
        """Write the words of a group of taps of all columns of an output row, with those of the padding."""
        f, rows, channels = context.f, self.shape.rows, self.shape.channels
        sources: list[Value] = []
        for i in self._rows(group):
            y = f.index(row) * rows.stride + (i * rows.dilation - rows.before)
            is_inside = (y >= 0) & (y < rows.source)
            sources.append(where(is_inside, image + where(is_inside, y, 0) * self.line, padding))
        to, before = context.thread_scratch(0, INT32) + group * self.row, self.shape.columns.before * channels
        edge = f.constant(INT32.of(self.lanes), 0)
        if self.is_of_bytes:
            edge = joined([f.splat(f.load(padding), self.lanes)] * len(sources))
        filled(f, to, before, edge)
        self._line(f, sources, to + before, zero_point(context, 2))
        filled(f, to + (before + self.line), self.row - before - self.line, edge)

    def _line(self, f: Function, sources: Sequence[Value], to: Value, zero: Value) -> None:
        lanes = self.lanes if self.line >= self.lanes else 0
        shift = f.splat(zero, lanes) if lanes else zero

        def word(j: Index) -> Value:
            codes = [f.load(source, j, lanes) for source in sources]
            return joined(codes if self.is_of_bytes else [difference(each, shift) for each in codes])

        step = max(lanes, 1)
        whole = self.line // step * step
        for j in f.range(0, whole, step):
            f.store(word(j), to, j)
        if whole < self.line:  # the last vector overlaps the one before it
            f.store(word(self.line - lanes), to, self.line - lanes)

    def _row(self, context: KernelContext, pixel: Value, *, is_symmetric: bool) -> None:
        """Compute an output row, whose first pixel has this number."""
        f, columns, channels = context.f, self.shape.columns, self.shape.groups
        whole = channels // self.lanes * self.lanes
        for column in starts(f, columns.pixels, self.beside):
            at = context.thread_scratch(0, INT32) + f.index(column) * (columns.stride * channels)
            for c in f.range(0, whole, self.lanes):
                self._vectors(context, at, pixel + column, c, self.lanes, is_symmetric=is_symmetric)
            if whole < channels:
                self._vectors(context, at, pixel + column, whole, channels - whole, is_symmetric=is_symmetric)

    def _vectors(
        self, context: KernelContext, at: Value, pixel: Value, c: Index, count: int, *, is_symmetric: bool
    ) -> None:
        """Compute `count` channels from one on, of a few neighbouring pixels."""
        f, columns, beside = context.f, self.shape.columns, self.beside
        weights, at = context.shared_scratch(0, INT32) + c, at + c
        own, rest = self._terms(context, weights, c, count, is_symmetric=is_symmetric)
        sums, windows = [own] * beside, [f.constant(own.type, 0)] * beside
        seen: dict[int, Value] = {}
        element = UINT8 if self.is_of_bytes else INT16
        for number in range(self.words):
            group, j = divmod(number, columns.window)
            weight = f.load(weights, number * self.across, self.lanes)
            ones = f.constant(own.type, self._ones(group))
            for p in range(beside):
                offset = group * self.row + (j * columns.dilation + p * columns.stride) * self.shape.channels
                if offset not in seen:
                    seen[offset] = f.load(at, offset, self.lanes)
                sums[p] = multiply_add(seen[offset], weight, sums[p], element)
                if rest is not None:
                    windows[p] = multiply_add(seen[offset], ones, windows[p], UINT8)
        for p, x in enumerate(sums):
            y = x if rest is None else x - rest * windows[p]
            finish(context, y, pixel + p, c, count, self.shape)

    def _ones(self, group: int) -> int:
        """Return the word with a one for each tap of a group."""
        return sum(1 << 8 * i for i in range(len(self._rows(group))))

    def _terms(
        self, context: KernelContext, weights: Value, c: Index, count: int, *, is_symmetric: bool
    ) -> tuple[Value, Value | None]:
        """Return the terms of channels alone, and the factors of the sums of windows, which are subtracted."""
        f, lanes, zero = context.f, self.lanes, context.operand(3)
        if not self.is_of_bytes:
            return f.constant(INT32.of(lanes), 0), None
        p = convert(zero_point(context, 2), INT32)
        p = f.splat(p - SIGN if has_signed_products(f.target) else p, lanes)
        total = f.load(weights, self.words * self.across, lanes)
        if is_symmetric:
            return 0 - p * total, None
        q = f.load(zero + c, 0, lanes, count) if self.has_many_zeros else f.splat(f.load(zero), lanes)
        r = convert(q, INT32) - SIGN
        return p * (r * (self.shape.rows.window * self.shape.columns.window) - total), r

"""Convolutions of bytes whose groups have one channel: vectors are channels, and neighbouring pixels share weights."""

from __future__ import annotations

from typing import Final

from runtime.codegen.costs import DEPTHWISE_TAP_CYCLES, PACKED_ELEMENT_CYCLES
from runtime.codegen.ir import INT32, Index, Value
from runtime.codegen.ir.words import convert
from runtime.codegen.kernels.integers.convolution import finish
from runtime.codegen.kernels.integers.shape import IntegerShape
from runtime.codegen.kernels.integers.source import Source
from runtime.codegen.kernels.integers.words import INT16
from runtime.codegen.kernels.split import part_of
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps, Prepack
from runtime.codegen.kernels.tiles import starts
from runtime.codegen.machine import Target

PIXELS_TOGETHER: Final = 4
"""Pixels that are computed together."""

MAX_TAPS: Final = 32
"""Upper bound on the taps, which are written out."""


class Depthwise:
    """The loops."""

    def __init__(self, target: Target, shape: IntegerShape, *, has_many_zeros: bool) -> None:
        """Plan the loops; `has_many_zeros` states that each channel of the filter has a zero point of its own."""
        self.shape, self.has_many_zeros, self.lanes = shape, has_many_zeros, target.lanes(32)
        self.source = Source(target, shape)
        self.taps = shape.rows.window * shape.columns.window
        self.across = -(-shape.groups // self.lanes) * self.lanes

    @staticmethod
    def applies(shape: IntegerShape) -> bool:
        """Return True for groups of one channel, unless windows are single pixels of a line."""
        is_line = shape.rows.source == shape.rows.window == shape.columns.window == 1
        taps = shape.rows.window * shape.columns.window
        return shape.groups > 1 and shape.deep == shape.wide == 1 and taps <= MAX_TAPS and not is_line

    def steps(self) -> KernelSteps:
        """Return the kernel steps: the weights as differences, and the computation."""
        shape, weights = self.shape, self.taps * self.across
        pack = KernelStep(self.pack, self.taps, weights * PACKED_ELEMENT_CYCLES, prepack=Prepack((1, 3), (0,)))
        pixels = shape.images * shape.rows.pixels * shape.columns.pixels
        cost = pixels * weights / self.lanes * DEPTHWISE_TAP_CYCLES
        compute = KernelStep(self.compute, shape.images * self.source.parts, cost)
        return KernelSteps((pack, compute), (weights * 2,), (self.source.nbytes,))

    def pack(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the weights of taps minus their zero points."""
        f, channels, w, zero = context.f, self.shape.groups, context.operand(1), context.operand(3)
        for tap in f.range(start, stop):
            for c in range(0, channels, self.lanes):
                tail = min(self.lanes, channels - c)
                codes = f.load(w + f.index(tap) * channels, c, self.lanes, tail)
                shift = f.load(zero, c, self.lanes, tail) if self.has_many_zeros else f.splat(f.load(zero), self.lanes)
                x = convert(codes, INT16) - convert(shift, INT16)
                f.store(x, context.shared_scratch(0, INT16) + f.index(tap) * self.across, c)

    def compute(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the computation; work items are parts of images."""
        f, shape, source = context.f, self.shape, self.source
        width = shape.columns.pixels
        beside = min(PIXELS_TOGETHER, width)
        for item in f.range(start, stop):
            image = f.index(item) // source.parts
            first, end = part_of(f, shape.rows.pixels, f.index(item) % source.parts, source.parts)
            left = source.copy(context, image, first)
            for row in f.range(first, end):
                line = left + (f.index(row) - first) * (shape.rows.stride * source.row)
                pixel = (image * shape.rows.pixels + row) * width
                for column in starts(f, width, beside):
                    at = line + f.index(column) * (shape.columns.stride * shape.channels)
                    self._pixels(context, at, pixel + column, beside)

    def _pixels(self, context: KernelContext, at: Value, pixel: Value, beside: int) -> None:
        """Compute all channels of a few neighbouring pixels."""
        f, channels, lanes = context.f, self.shape.groups, self.lanes
        whole = channels // lanes * lanes
        for c in f.range(0, whole, lanes):
            self._vectors(context, at + c, pixel, c, beside, lanes)
        if whole < channels:
            self._vectors(context, at + whole, pixel, whole, beside, channels - whole)

    def _vectors(self, context: KernelContext, at: Value, pixel: Value, c: Index, beside: int, count: int) -> None:
        f, shape, lanes = context.f, self.shape, self.lanes
        weights = context.shared_scratch(0, INT16) + c
        seen: dict[int, Value] = {}
        sums = [f.constant(INT32.of(lanes), 0)] * beside
        for tap in range(self.taps):
            i, j = divmod(tap, shape.columns.window)
            weight = convert(f.load(weights, tap * self.across, lanes), INT32)
            for p in range(beside):
                column = j * shape.columns.dilation + p * shape.columns.stride
                offset = i * shape.rows.dilation * self.source.row + column * shape.channels
                if offset not in seen:
                    seen[offset] = convert(f.load(at, offset, lanes), INT32)
                sums[p] = sums[p] + seen[offset] * weight
        for p, x in enumerate(sums):
            finish(context, x, pixel + p, c, count, shape)

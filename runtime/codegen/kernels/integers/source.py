"""Parts of an image as the elements of words, padded, in scratch of a thread.

A part is some output rows with all columns; the part of an image of one row is some of its pixels.
Elements are 16-bit differences from the zero point, padded with 0, or codes, padded with the zero point. Codes whose
words end with each segment of a window are read where they are, if nothing is padded.
"""

from __future__ import annotations

from typing import Final

from runtime.codegen.ir import UINT8, Function, Index, Type, Value
from runtime.codegen.ir.words import convert, minimum
from runtime.codegen.kernels.copies import filled
from runtime.codegen.kernels.integers.shape import IntegerShape
from runtime.codegen.kernels.integers.words import INT16, difference, zero_point
from runtime.codegen.kernels.steps import KernelContext
from runtime.codegen.machine import Target

WANTED_ITEMS: Final = 8
"""Number of work items that gives each of few threads a share."""

MIN_LINE_PIXELS: Final = 24
"""Least number of pixels of a part of a line."""

VECTORS_PER_ITERATION: Final = 4
"""Vectors that one iteration copies."""


class Source:
    """The partition of images, and the copy of a part.

    Attributes:
        is_line: True for images of one row, whose parts are pixels.
        parts: parts of an image.
        most: most rows of a part, or pixels of a line.
        row: elements from one row of the copy to the next.
        is_copied: True if it is a copy.
        size: elements of the copy, with those that a vector reads behind it.
    """

    def __init__(self, target: Target, shape: IntegerShape, element: Type = INT16) -> None:
        self.shape, self.element, self.lanes = shape, element, target.lanes(element.bits)
        rows, columns = shape.rows, shape.columns
        self.is_line = rows.pixels == rows.source == rows.window == columns.window == 1 and not rows.before
        self.is_line = self.is_line and columns.source == columns.pixels
        total, least = (columns.pixels, MIN_LINE_PIXELS) if self.is_line else (rows.pixels, 1)
        wanted = -(-target.wanted_items(WANTED_ITEMS) // shape.images)
        pixel = shape.channels * element.bits // 8
        each = pixel if self.is_line else columns.extent * pixel * rows.stride
        fitting = max(target.l2_bytes // 4 // each, least)
        self.parts = max(min(max(wanted, -(-total // fitting)), total // least), 1)
        self.most = -(-total // self.parts)
        self.row = columns.extent * shape.channels
        used = self.most * shape.channels if self.is_line else rows.span(self.most) * self.row
        is_padded = any(side.before or side.extent > side.source for side in (rows, columns))
        self.is_copied = element != UINT8 or shape.length % 4 > 0 or is_padded
        self.size = used + self.lanes if self.is_copied else 0

    @property
    def nbytes(self) -> int:
        """Bytes of the copy."""
        return self.size * self.element.bits // 8

    def copy(self, context: KernelContext, image: Value, first: Index) -> Value:
        """Copy the part that begins at row or pixel `first`; return the address of that row or pixel in the copy."""
        f, x, channels = context.f, context.operand(0), self.shape.channels
        if not self.is_copied:
            each = channels if self.is_line else self.row * self.shape.rows.stride
            images = self.shape.rows.source * self.shape.columns.source * channels
            return x + (image * images + f.index(first) * each)
        zero = convert(zero_point(context, 2), self.element)
        to = context.thread_scratch(0, self.element)
        if self.is_line:
            pixels = self.shape.columns.pixels
            start = minimum(f.index(first), pixels - self.most)
            self._run(f, x + (image * pixels + start) * channels, to, self.most * channels, zero)
            return to + (f.index(first) - start) * channels
        rows = self.shape.rows
        line, top = self.shape.columns.source * channels, f.index(first) * rows.stride - rows.before
        count = rows.span(self.most)
        is_inside = self.parts == 1 and not rows.before and count <= rows.source
        for i in f.range(0, count):
            at, y = to + f.index(i) * self.row, top + i
            source = x + (image * rows.source + y) * line
            if is_inside:
                self._padded(f, source, at, line, zero)
                continue
            inside = (y >= 0) & (y < rows.source)
            with f.when(inside):
                self._padded(f, source, at, line, zero)
            with f.when(~inside):
                filled(f, at, self.row, self._padding(zero))
        return to

    def _padded(self, f: Function, source: Value, to: Value, line: int, zero: Value) -> None:
        before, padding = self.shape.columns.before * self.shape.channels, self._padding(zero)
        filled(f, to, before, padding)
        self._run(f, source, to + before, line, zero)
        filled(f, to + (before + line), self.row - before - line, padding)

    def _padding(self, zero: Value) -> Value:
        f = zero.function
        return f.splat(zero, self.lanes) if self.element == UINT8 else f.constant(INT16.of(self.lanes), 0)

    def _element(self, code: Value, zero: Value) -> Value:
        return code if self.element == UINT8 else difference(code, zero)

    def _run(self, f: Function, source: Value, to: Value, count: int, zero: Value) -> None:
        """Copy contiguous elements; the last vector overlaps the one before it."""
        lanes = self.lanes if count >= self.lanes else 0
        step = max(lanes, 1)
        whole = count // step * step
        shift = f.splat(zero, lanes) if lanes else zero
        many = whole // (step * VECTORS_PER_ITERATION) * step * VECTORS_PER_ITERATION
        for start, stop, abreast in ((0, many, VECTORS_PER_ITERATION), (many, whole, 1)):
            for i in f.range(start, stop, abreast * step):
                for j in range(0, abreast * step, step):
                    f.store(self._element(f.load(source, i + j, lanes), shift), to, i + j)
        if whole < count:
            f.store(self._element(f.load(source, count - lanes, lanes), shift), to, count - lanes)

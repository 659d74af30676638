"""Maxima and means of windows: vectors are channels, work items are output rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from runtime.codegen.costs import POOLED_TAP_CYCLES
from runtime.codegen.ir import Function, Index, Type, Value
from runtime.codegen.ir.words import convert, is_nan, maximum, where
from runtime.codegen.kernels.conv.filter_plan import FilterAxis
from runtime.codegen.kernels.conv.taps import MAX_UNROLLED_TAPS, Bounds, Fold, inside, is_inside
from runtime.codegen.kernels.split import in_blocks
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps, batch_parts


class Pool(NamedTuple):
    """A window that slides over images.

    Attributes:
        element: type of the images.
        images: number of images.
        rows, columns: the axes.
        channels: channels of the images.
        lanes: lanes of a vector.
        counts_border: True if a mean includes positions outside of the image.
    """

    element: Type
    images: int
    rows: FilterAxis
    columns: FilterAxis
    channels: int
    lanes: int
    counts_border: bool = False

    @property
    def vector(self) -> Type:
        """Type of a vector of channels."""
        return self.element.of(self.lanes)

    @property
    def is_apart(self) -> bool:
        """True if no two windows overlap, all lie inside of the image, and they have few taps."""
        sides = (self.rows, self.columns)
        few = self.rows.window * self.columns.window <= MAX_UNROLLED_TAPS
        return few and all(side.stride >= side.window and is_inside(side) for side in sides)

    def steps(self, row: Callable[[KernelContext, Value, Value], None], rows: int) -> KernelSteps:
        """Return one kernel step, whose work items are `rows` rows of each image."""

        def write(context: KernelContext, start: Value, stop: Value) -> None:
            for item in context.f.range(start, stop):
                row(context, context.f.index(item) // rows, context.f.index(item) % rows)

        vectors = self.images * self.rows.pixels * self.columns.pixels * -(-self.channels // self.lanes)
        cost = vectors * self.rows.window * self.columns.window * POOLED_TAP_CYCLES
        own_images = batch_parts(self.images, self.images, 0)
        return KernelSteps((KernelStep(write, self.images * rows, cost, batch_parts=own_images),))

    def vectors(self, f: Function) -> Iterator[tuple[Index, int]]:
        """Give the channels as vectors: the first channel, and the number of lanes that count."""
        return in_blocks(f, self.channels, self.lanes)

    def pixel(self, f: Function, image: Value, row: Index, column: Index) -> Value:
        """Return the offset of a pixel in elements."""
        return ((image * self.rows.source + row) * self.columns.source + column) * self.channels

    def place(self, f: Function, image: Value, row: Index, column: Index) -> Value:
        """Return the offset of an output pixel in elements."""
        return ((image * self.rows.pixels + row) * self.columns.pixels + column) * self.channels

    def under(self, f: Function, row: Index, column: Index) -> tuple[Bounds, Bounds]:
        """Return the taps of the window at an output pixel that are inside of the image."""
        return inside(f, self.rows, row), inside(f, self.columns, column)

    # Forwards.

    def largest(self, context: KernelContext, image: Value, row: Value) -> None:
        """Write the maxima of an output row; NaN where the window has one."""
        f, x = context.f, context.operand(0)
        least = float("-inf") if self.element.is_float else 0
        for column, c, count, source in self.windows(context, image, row):
            fold = Fold(f, *self.under(f, row, column), [f.constant(self.vector, least)])
            for i, j, [most] in fold:
                fold.carry([maximum(self.seen(f, x, source, i, j, c, count), most)])
            f.store(fold.results[0], context.outputs[0] + self.place(f, image, row, column), c, count)

    def mean(self, context: KernelContext, image: Value, row: Value) -> None:
        """Write the means of an output row."""
        f, x = context.f, context.operand(0)
        for column, c, count, source in self.windows(context, image, row):
            fold = Fold(f, *self.under(f, row, column), [f.constant(self.vector, 0)])
            for i, j, [total] in fold:
                fold.carry([total + self.seen(f, x, source, i, j, c, count)])
            divisor = self.divisor(f, row, column)
            f.store(fold.results[0] / divisor, context.outputs[0] + self.place(f, image, row, column), c, count)

    def selected(self, context: KernelContext, image: Value, row: Value) -> None:
        """Write the elements of a second tensor at the positions of the maxima of an output row."""
        f, x, z = context.f, context.operand(0), context.operand(1)
        for column, c, count, source in self.windows(context, image, row):
            rows, columns = self.under(f, row, column)
            first = self.seen(f, z, source, rows[0], columns[0], c, count)
            fold = Fold(f, rows, columns, [f.constant(self.vector, float("-inf")), first])
            for i, j, [most, taken] in fold:
                seen, other = (self.seen(f, t, source, i, j, c, count) for t in (x, z))
                more = is_more(seen, most)
                fold.carry([where(more, seen, most), where(more, other, taken)])
            f.store(fold.results[1], context.outputs[0] + self.place(f, image, row, column), c, count)

    # Used by the gradients too.

    def windows(self, context: KernelContext, image: Value, row: Value) -> Iterator[tuple[Index, Index, int, Value]]:
        """Give columns, first channels, counts of lanes and offsets of the windows of an output row."""
        f = context.f
        for column in f.range(0, self.columns.pixels):
            source = self.source(f, image, row, column)
            for c, count in self.vectors(f):
                yield column, c, count, source

    def source(self, f: Function, image: Value, row: Index, column: Index) -> Value:
        """Return the offset of the first tap at an output pixel, which may be outside of the image."""
        begin, left = row * self.rows.stride - self.rows.before, column * self.columns.stride - self.columns.before
        return self.pixel(f, image, begin, left)

    def seen(self, f: Function, x: Value, source: Value, i: Index, j: Index, c: Index, count: Index) -> Value:
        """Return the vector that a tap sees."""
        return f.load(x + source + (i * self.columns.source + j) * self.channels, c, self.lanes, count)

    def divisor(self, f: Function, row: Index, column: Index) -> Value:
        """Return the number of elements in the mean at an output pixel, as a vector."""
        area = self.rows.window * self.columns.window
        if self.counts_border:
            return f.constant(self.vector, area)
        (top, bottom), (left, right) = self.under(f, row, column)
        number = (bottom - top) * (right - left)
        if isinstance(number, int):
            return f.constant(self.vector, number)
        return f.splat(convert(number, self.element), self.lanes)


def is_more(seen: Value, most: Value) -> Value:
    """Return a mask of the lanes in which a tap replaces the maximum so far: its element is larger, or NaN."""
    return (seen > most) | is_nan(seen)

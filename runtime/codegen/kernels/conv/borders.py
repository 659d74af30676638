"""Copies of images with zeros around them, so that no loop has to test where an image ends."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from runtime.codegen.ir import Function, Index, Type, Value
from runtime.codegen.kernels.copies import copied, zeros
from runtime.codegen.kernels.pair_chains import chain_rows
from runtime.codegen.kernels.pair_products import paired
from runtime.codegen.kernels.steps import ComputedOperand, KernelContext
from runtime.codegen.machine import PREFETCH_BYTES


class Images(NamedTuple):
    """Images, or parts of them, as a convolution reads them.

    Attributes:
        at: address of the first element.
        image: stride of images in elements.
        row: stride of rows.
        pixel: stride of pixels.
    """

    at: Value
    image: int
    row: int
    pixel: int


def first_operand(context: KernelContext) -> Value | ComputedOperand:
    """Return the address of the source of a convolution, or the producer slot if the source is not in memory."""
    return context.computed_operand or context.operand(0)


def onward(source: Value | ComputedOperand, pixels: Index, channels: int) -> Value | ComputedOperand:
    """Return the source that begins `pixels` pixels later."""
    return source.onward(pixels) if isinstance(source, ComputedOperand) else source + pixels * channels


def from_channel(source: Value | ComputedOperand, channel: Index) -> Value | ComputedOperand:
    """Return the source whose first channel is this one."""
    if not isinstance(source, ComputedOperand):
        return source + channel

    def read(row: Index, column: Index, lanes: int, count: int) -> Value:
        return source.read(row, column + channel, lanes, count)

    return source._replace(read=read, streams=[operand + channel for operand in source.streams])


class Extent(Protocol):
    """One axis of an image under a window."""

    @property
    def source(self) -> int:
        """The extent of the axis."""
        ...

    @property
    def before(self) -> int:
        """The number of zeros before it."""
        ...

    @property
    def pixels(self) -> int:
        """The number of output positions."""
        ...

    def span(self, pixels: int) -> int:
        """Return the extent of the padded axis that `pixels` output positions see."""
        ...


class Border(NamedTuple):
    """A copy of images with zeros around them.

    Attributes:
        rows, columns: extents of an image.
        above, before: number of zeros above and before it; if negative, number of elements that are left out.
        height, width: extents of a copy.
        channels: number of channels that are copied.
        between: stride of pixels of the image, in elements.
        pixel: stride of pixels of the copy.
        gap: elements between copies.
    """

    rows: int
    columns: int
    above: int
    before: int
    height: int
    width: int
    channels: int
    between: int
    pixel: int
    gap: int = 0

    @staticmethod
    def around(rows: Extent, columns: Extent, most_rows: int, channels: int, pixel: int) -> Border:
        """Return the copy for `most_rows` output rows, with all their columns, of images with these channels."""
        return Border(
            rows.source,
            columns.source,
            rows.before,
            columns.before,
            rows.span(most_rows),
            columns.span(columns.pixels),
            channels,
            channels,
            pixel,
        )

    @property
    def size(self) -> int:
        """Elements of a copy, and of the gap behind it."""
        return self.height * self.width * self.pixel + self.gap


def bordered(
    f: Function,
    border: Border,
    source: Value | ComputedOperand,
    to: Value,
    images: Index,
    first: Index,
    height: Index,
    vector: Type,
    is_chained: bool = False,
) -> Images:
    """Copy rows of `images` images: `height` rows, from row `first` of the padded image on.

    With `is_chained`, words of pairs are combined to neighbours of a chain.
    """
    line = border.width * border.pixel
    start, stop = max(border.before, 0), min(border.before + border.columns, border.width)
    inside = max(stop - start, 0)
    for image in f.range(0, images):
        for row in f.range(0, height):
            pixel = to + image * border.size + row * line
            wanted = f.index(first) + row - border.above
            exists = (wanted >= 0) & (wanted < border.rows)
            with f.when(exists):
                begin = (f.index(image) * border.rows + wanted) * border.columns + max(-border.before, 0)
                zeros(f, pixel, start * border.pixel, vector)
                within = onward(source, begin, border.between)
                _pixels(f, border, within, pixel + start * border.pixel, inside, vector)
                if is_chained:
                    chain_rows(f, pixel + start * border.pixel, inside, border.pixel, border.channels)
                end = (start + inside) * border.pixel
                zeros(f, pixel + end, line - end, vector)
            with f.when(~exists):
                zeros(f, pixel, line, vector)
    return Images(to, border.size, line, border.pixel)


def _pixels(f: Function, border: Border, source: Value | ComputedOperand, to: Value, count: int, vector: Type) -> None:
    if isinstance(source, ComputedOperand):
        for i in f.range(0, count):
            place = to + i * border.pixel
            write_computed(f, source.onward(i), place, border.channels, vector, between=border.between)
        return
    if border.between == border.pixel == border.channels:
        copied(f, source, to, count * border.channels, vector)
        return
    for i in f.range(0, count):
        copied(f, source + i * border.between, to + i * border.pixel, border.channels, vector)


def write_computed(
    f: Function,
    source: ComputedOperand,
    to: Value,
    count: int,
    vector: Type,
    between: int,
    other: ComputedOperand | None = None,
) -> None:
    """Compute and write `count` channels of a pixel; pixels are `between` elements apart.

    With `other`, an operand that begins at another pixel, write words with pairs of bfloat16 of both pixels.
    """
    whole = count // vector.lanes * vector.lanes

    def write(i: Index, tail: int) -> None:
        x = source.read(source.first, i, vector.lanes, tail)
        if other is not None:
            x = paired(x, other.read(other.first, i, vector.lanes, tail))
        f.store(x, to, i, tail)

    for i in f.range(0, whole, vector.lanes):
        for operand in source.streams:
            ahead = PREFETCH_BYTES * 8 // vector.bits
            f.prefetch(operand + (source.first * between + i), ahead, 2)
        write(i, vector.lanes)
    if tail := count - whole:
        write(whole, tail)

"""A convolution of bytes; a product of matrices is one of a line of pixels."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

from prograd_proto import TensorType


class Side(NamedTuple):
    """An axis of images.

    Attributes:
        source: extent of the source.
        pixels: number of output positions.
        window: taps.
        stride, dilation: steps between positions and between taps.
        before: zeros before the source.
    """

    source: int
    pixels: int
    window: int = 1
    stride: int = 1
    dilation: int = 1
    before: int = 0

    def span(self, pixels: int) -> int:
        """Return the extent of the padded source that this number of positions reads."""
        return (pixels - 1) * self.stride + (self.window - 1) * self.dilation + 1

    @property
    def extent(self) -> int:
        """The extent of the padded source: what the positions read, and at least the source."""
        return max(self.before + self.source, self.span(self.pixels))


class IntegerShape(NamedTuple):
    """A convolution.

    Attributes:
        images: number of images.
        filter_sets: 1, or as many as images, if each has filters of its own.
        rows, columns: the axes.
        groups: groups of channels.
        deep: source channels of a group.
        wide: result channels of a group.
    """

    images: int
    filter_sets: int
    rows: Side
    columns: Side
    groups: int
    deep: int
    wide: int

    @property
    def channels(self) -> int:
        """Channels of the source."""
        return self.groups * self.deep

    @property
    def results(self) -> int:
        """Channels of the result."""
        return self.groups * self.wide

    @property
    def segments(self) -> int:
        """Number of parts of a row of taps whose elements are contiguous in the source."""
        return 1 if self.groups == 1 and self.columns.dilation == 1 else self.columns.window

    @property
    def length(self) -> int:
        """Elements of such a part."""
        return self.columns.window * self.deep // self.segments

    def words(self, elements: int) -> int:
        """Return the words of such a part, if a word has this number of elements."""
        return -(-self.length // elements)


def shape_of_product(x: TensorType, w: TensorType) -> IntegerShape:
    """Return a product of matrices as a convolution."""
    *leading, m, k = x.static_shape
    n, filter_sets = w.static_shape[-1], prod(w.static_shape[:-2])
    images = prod(leading) if filter_sets > 1 else 1
    pixels = prod(leading) * m // images
    return IntegerShape(images, filter_sets, Side(1, 1), Side(pixels, pixels), 1, k, n)


def shape_of_convolution(x: TensorType, w: TensorType, y: TensorType, attributes: Mapping[str, Any]) -> IntegerShape:
    """Return a convolution; if each window is one pixel, the image becomes a line of pixels."""
    stride, padding, dilation, groups = (attributes[name] for name in ("stride", "padding", "dilation", "groups"))
    n, *extents, channels = x.static_shape
    window, pixels = w.static_shape[:2], y.static_shape[1:3]
    deep, wide = channels // groups, w.static_shape[3] // groups
    if window == stride == (1, 1) and not any(padding):
        line = n * prod(extents)
        return IntegerShape(1, 1, Side(1, 1), Side(line, line), groups, deep, wide)
    rows, columns = (Side(extents[i], pixels[i], window[i], stride[i], dilation[i], padding[i]) for i in range(2))
    return IntegerShape(n, 1, rows, columns, groups, deep, wide)

"""Windows that slide over images [n, h, w, c]: how many places they have, and what lies under each of their taps.

Images are taken a few at a time, so that what is kept of them stays in a cache. A tap is one element of the window.
`stride`, `dilation` and `window` are (vertical, horizontal), `padding` is (top, left, bottom, right).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from math import prod

import numpy as np

from prograd_proto.dtypes import ITEM_BYTES
from runtime.kernel import Array, require

Numbers = tuple[int, ...]
Index = tuple[slice, slice, slice]

EVERY = slice(None)

CHUNK_BYTES = 1 << 20
"""Scratch that stays in a second-level cache, if one image allows it."""

BUFFER = 512
"""Elements for `np.setbufsize`: with its own 8192 NumPy copies parts of images into buffers where it need not."""


@contextmanager
def small_buffers() -> Generator[None]:
    """Let NumPy copy few elements at once, within or, as a decorator, throughout a kernel."""
    with np.errstate():  # gives the buffer size back as well
        np.setbufsize(BUFFER)
        yield


def window_counts(
    height: int, width: int, *, window: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers = (1, 1)
) -> tuple[int, int]:
    """How many places a window has on an image, from top to bottom and from left to right."""
    require(len(window) == len(stride) == len(dilation) == 2, "window, stride and dilation need two numbers each")
    require(min(*window, *stride, *dilation) > 0, "window, stride and dilation must be positive")
    require(max(*window, *stride, *dilation) < 1 << 31, "window, stride and dilation must be below 2^31")
    require(len(padding) == 4 and min(padding) >= 0, f"padding {padding} must be four numbers from 0")
    top, left, bottom, right = padding
    rows = (height + top + bottom - dilation[0] * (window[0] - 1) - 1) // stride[0] + 1
    columns = (width + left + right - dilation[1] * (window[1] - 1) - 1) // stride[1] + 1
    require(rows > 0 and columns > 0, f"the window {window} is larger than an image of {height} x {width}")
    return rows, columns


def taps(
    x: Array,
    y: Array,
    backwards: bool = False,
    /,
    *,
    window: Numbers,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers = (1, 1),
) -> Iterator[tuple[int, int, Index, Index]]:
    """For every tap in row-major order: its row and column, what of x it touches, and for which places of y.

    `backwards` begins with the last.
    The last two index x and y to equal shapes. Places where the tap lies in the padding are left out.
    """
    order = -1 if backwards else 1
    for i in range(window[0])[::order]:
        x_rows, y_rows = _overlap(x.shape[1], y.shape[1], i * dilation[0] - padding[0], stride[0])
        for j in range(window[1])[::order]:
            x_columns, y_columns = _overlap(x.shape[2], y.shape[2], j * dilation[1] - padding[1], stride[1])
            yield i, j, (EVERY, x_rows, x_columns), (EVERY, y_rows, y_columns)


def _overlap(size: int, places: int, offset: int, stride: int) -> tuple[slice, slice]:
    """Of the positions offset + stride * place those within the image, as a slice of it and one of the places."""
    first = max(0, -(offset // stride))
    stop = max(first, min(places, (size - 1 - offset) // stride + 1))
    start = offset + stride * first
    return slice(start, start + stride * (stop - first), stride), slice(first, stop)


def images_at_once(n: int, elements: int, dtype: str) -> int:
    """How many of n images with so many elements each fit into a chunk, at least one."""
    return max(1, min(n, CHUNK_BYTES // max(1, elements * ITEM_BYTES[dtype])))


def chunks(n: int, at_once: int) -> Iterator[slice]:
    """The images that are taken at once."""
    return (slice(start, min(start + at_once, n)) for start in range(0, n, max(at_once, 1)))


def first_of(part: Array, shape: Numbers) -> Array:
    """An array of that shape at the start of the scratch."""
    return part.reshape(-1)[: prod(shape)].reshape(shape)

"""Windows that slide over images [n, h, w, c]: the number of output positions, and the input under each tap.

Images are taken a few at a time, so that their intermediate results stay in a cache. A tap is one element of the
window. `stride`, `dilation` and `window` are (vertical, horizontal), `padding` is (top, left, bottom, right).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from math import prod

import numpy as np

from prograd_proto.dtypes import ITEM_BYTES
from runtime.kernel import Array

Numbers = tuple[int, ...]
Index = tuple[slice, slice, slice]

EVERY = slice(None)

CHUNK_BYTES = 1 << 20
"""Bytes of scratch that stay in a second-level cache, if one image allows it."""

BUFFER = 512
"""Elements for `np.setbufsize`: with its default of 8192 NumPy copies parts of images into buffers needlessly."""


@contextmanager
def small_buffers() -> Generator[None]:
    """Let NumPy buffer few elements at a time, within a context or, as a decorator, throughout a kernel."""
    with np.errstate():  # restores the buffer size as well
        np.setbufsize(BUFFER)
        yield


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
    """Yield for every tap in row-major order its row, its column, and the indices of its input and output.

    `backwards` begins with the last. The two indices select equal shapes of x and y. Output positions where the tap
    lies in the padding are left out.
    """
    order = -1 if backwards else 1
    for i in range(window[0])[::order]:
        x_rows, y_rows = _overlap(x.shape[1], y.shape[1], i * dilation[0] - padding[0], stride[0])
        for j in range(window[1])[::order]:
            x_columns, y_columns = _overlap(x.shape[2], y.shape[2], j * dilation[1] - padding[1], stride[1])
            yield i, j, (EVERY, x_rows, x_columns), (EVERY, y_rows, y_columns)


def _overlap(size: int, places: int, offset: int, stride: int) -> tuple[slice, slice]:
    """Return the positions offset + stride * index within the image, as a slice of it and one of the indices."""
    first = max(0, -(offset // stride))
    stop = max(first, min(places, (size - 1 - offset) // stride + 1))
    start = offset + stride * first
    return slice(start, start + stride * (stop - first), stride), slice(first, stop)


def images_at_once(n: int, elements: int, dtype: str) -> int:
    """Return the number of images of `elements` elements each that fit into a chunk, at least one."""
    return max(1, min(n, CHUNK_BYTES // max(1, elements * ITEM_BYTES[dtype])))


def chunks(n: int, at_once: int) -> Iterator[slice]:
    """Yield the slices of images that are taken at once."""
    return (slice(start, min(start + at_once, n)) for start in range(0, n, max(at_once, 1)))


def first_of(part: Array, shape: Numbers) -> Array:
    """Return an array of that shape at the start of the scratch."""
    return part.reshape(-1)[: prod(shape)].reshape(shape)

"""Sums and running sums whose error does not grow with their length: in blocks, or in float64.

NumPy adds the elements of a row pairwise, but rows sequentially, and accumulates sequentially: after n terms the error
is up to n / 2 units in the last place. Here no sum of rows has more sequential terms than BLOCK or the root of n, and
then as many blocks. Running sums of float32 are kept in float64. Short sums have the bits of NumPy's sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from math import isqrt, prod

import numpy as np

from runtime.dtypes import Array

BLOCK = 256
"""Number of rows that are added sequentially."""

ROOM = 4096
"""Elements of a temporary array: 32 KiB of float64."""

Part = tuple[slice, slice, slice]


def add_along(x: Array, axes: tuple[int, ...], out: Array, *, keepdims: bool) -> None:
    """Write the sum of floats along axes, all if empty, into `out`, which is not x."""
    gone = sorted(axis % x.ndim for axis in axes) if axes else [*range(x.ndim)]
    run = all(b - a == 1 for a, b in pairwise(gone))
    rest = prod(x.shape[gone[-1] + 1 :]) if gone else 1
    rows = prod(x.shape[axis] for axis in gone)
    if run and rest > 1 and rows > BLOCK and out.size:
        add_rows(x.reshape(-1, rows, rest), out.reshape(-1, rest))
    else:
        np.add.reduce(x, axis=axes or None, out=out, keepdims=keepdims)


def add_rows(x: Array, out: Array) -> None:
    """Write the sum of x [n, rows, rest] over rows into `out` [n, rest], block by block."""
    n, rows, rest = x.shape
    block = block_of(rows)
    at_once = max(1, ROOM // max(1, rest))
    room = np.empty(min(n * rest, ROOM), x.dtype)
    for image, column in product(range(0, n, at_once), range(0, rest, ROOM)):
        some = x[image : image + at_once, :, column : column + ROOM]
        to = out[image : image + at_once, column : column + ROOM]
        part = room[: to.size].reshape(to.shape)
        np.add.reduce(some[:, :block], axis=1, out=to)
        for start in range(block, rows, block):
            np.add.reduce(some[:, start : start + block], axis=1, out=part)
            np.add(to, part, to)


def add_rows_by_product(ones: Array, x: Array, out: Array) -> None:
    """Write the sum over rows into `out` [n, 1, rest], by products with `ones` [1, rows]; faster for short rows."""
    n, rows, rest = x.shape
    block = block_of(rows)
    np.matmul(ones[:, :block], x[:, :block], out)
    if rows <= block:
        return
    at_once = max(1, ROOM // max(1, rest))
    room = np.empty((min(n, at_once), 1, rest), x.dtype)
    for first in range(0, n, at_once):
        some, to = x[first : first + at_once], out[first : first + at_once]
        part = room[: len(to)]
        for start in range(block, rows, block):
            terms = some[:, start : start + block]
            np.matmul(ones[:, : terms.shape[1]], terms, part)
            np.add(to, part, to)


def block_of(rows: int) -> int:
    """Return the number of rows that are added sequentially."""
    return max(BLOCK, isqrt(rows))


def accumulate_wide(ufunc: np.ufunc, x: Array, out: Array) -> None:
    """Accumulate the ufunc along the middle axis of float32 x [n, steps, rest], in float64."""
    room, carried = np.empty(ROOM), np.empty(ROOM)
    carry = carried
    for images, steps, columns in tiles(x.shape):
        seen = x[images, steps, columns]
        wide = room[: seen.size].reshape(seen.shape)
        np.copyto(wide, seen)
        if steps.start:
            ufunc(wide[:, 0], carry, wide[:, 0])
        ufunc.accumulate(wide, 1, None, wide)
        np.copyto(out[images, steps, columns], wide, casting="same_kind")
        carry = carried[: wide[:, 0].size].reshape(wide[:, 0].shape)
        np.copyto(carry, wide[:, -1])


def tiles(shape: tuple[int, ...]) -> Iterator[Part]:
    """Yield parts of at most ROOM elements, those of the same images and columns one after the other."""
    n, steps, rest = shape
    wide = min(rest, max(1, ROOM // max(1, min(steps, BLOCK))))
    long = min(steps, max(1, ROOM // max(1, wide)))
    deep = max(1, ROOM // max(1, wide * long))
    for image in range(0, n, deep):
        for column in range(0, rest, max(1, wide)):
            for step in range(0, steps, max(1, long)):
                yield slice(image, image + deep), slice(step, step + long), slice(column, column + wide)

"""Depthwise convolution, tap by tap: one product with a row of weights, and one sum.

A tap's weights are repeated along the width, so that NumPy's inner loop is a whole row of the image: as a matrix
product a single channel would have one column.
"""

from __future__ import annotations

from math import prod

import numpy as np

from prograd_proto import TensorType
from runtime.dtypes import Array
from runtime.engines.reference.kernels.windows import Numbers, chunks, first_of, images_at_once, small_buffers, taps

Window = dict[str, Numbers]


def is_depthwise(w: Numbers, groups: int) -> bool:
    """Return True if filters of shape w take one channel each."""
    return w[2] == 1 and groups > 1


def part_and_line(y: TensorType, groups: int) -> list[TensorType]:
    """Return scratch for the product of one tap with a few images, and its weights for a row of output positions."""
    n, height, width, made = y.static_shape
    at_once = images_at_once(n, 4 * height * width * made, y.dtype)
    shapes = (at_once, height, width, groups, made // groups), (width, groups, made // groups)
    return [TensorType(y.dtype, shape) for shape in shapes]


@small_buffers()
def spread(x: Array, w: Array, window: Window, part: Array, line: Array, out: Array) -> None:
    """Add to `out`, a few output images, the input under every tap of x times its weights."""
    y = by_channel(out, line)
    for images in chunks(len(x), len(part)):
        for i, j, inside, places in taps(x, out, **window):
            seen, to = x[images][inside][..., None], y[images][places]
            product = first_of(part, to.shape)
            np.multiply(seen, weights(w[i, j], line)[: to.shape[2]], product)
            np.add(to, product, to)


@small_buffers()
def spread_back(dy: Array, w: Array, window: Window, part: Array, line: Array, dx: Array) -> None:
    """Add to dx the contribution of every tap to the gradient of dy: the adjoint of `spread`."""
    share = by_channel(dy, line)
    for images in chunks(len(dy), len(part)):
        for i, j, inside, places in taps(dx, dy, **window):
            to, seen = dx[images][inside], share[images][places]
            product = first_of(part, seen.shape)
            np.multiply(seen, weights(w[i, j], line)[: to.shape[2]], product)
            for k in range(line.shape[2]):
                np.add(to, product[..., k], to)


@small_buffers()
def add_correlation(x: Array, dy: Array, window: Window, part: Array, ones: Array, sums: Array, dw: Array) -> None:
    """Add to dw, for every tap, the sum over output positions of its input times dy, by a product with ones."""
    share = dy.reshape(*dy.shape[:3], *part.shape[3:])
    for images in chunks(len(x), len(part)):
        for i, j, inside, places in taps(x, dy, **window):
            seen = share[images][places]
            product = first_of(part, seen.shape)
            np.multiply(x[images][inside][..., None], seen, product)
            rows = prod(seen.shape[:3])
            np.matmul(ones[:, :rows], product.reshape(rows, sums.size), sums)  # the sum of no rows is 0
            np.add(dw[i, j], sums, dw[i, j])


def by_channel(y: Array, line: Array) -> Array:
    """Return the view of images y with an axis of the output channels per input channel."""
    return y.reshape(*y.shape[:3], *line.shape[1:])


def weights(w: Array, line: Array) -> Array:
    """Return a tap's weights for every output position of a row."""
    np.copyto(line, w.reshape(line.shape[1:]))
    return line

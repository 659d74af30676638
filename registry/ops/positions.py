"""Embedding lookup, rotary and sinusoidal positions, and pixel shuffle.

All are spelled with other operators; none has a kernel of its own.
"""

from __future__ import annotations

import math  # a star import of its names would shadow operators

from prograd_proto.dtypes import FLOATS, DTypeName
from prograd_proto.result_types.shapes import size_known
from prograd_proto.result_types.windows import require_image
from registry.arrays import weights_of
from registry.errors import require
from registry.ops.arrange import stack, unsqueeze
from registry.ops.copy import cast, stop_gradient
from registry.ops.fill import range
from registry.ops.index import gather
from registry.ops.pointwise import cos, exp, not_equal, sin, where
from registry.ops.shape import concat, reshape, transpose
from registry.spelled import spelled
from registry.value import Value, Weights


@spelled
def embedding(table: Value, indices: Value, *, padding_index: int | None = None) -> Value:
    """Return the rows of the table [count, size] at `indices` [...], as [..., size].

    The row `padding_index` is read like any other and gets no gradient.
    """
    require(table.rank == 2, f"a table has the axes [count, size], not {table.rank} of them")
    rows = gather(table, indices)
    if padding_index is None:
        return rows
    count = table.shape[0]
    fits = padding_index >= 0 and (isinstance(count, str) or padding_index < count)
    require(fits, f"padding_index={padding_index} is not a row of {table.type}")
    return where(unsqueeze(not_equal(indices, padding_index), axis=(-1,)), rows, stop_gradient(rows))


@spelled
def sinusoidal_positions(positions: Value, *, size: int, base: float = 10000.0, dtype: DTypeName = "float32") -> Value:
    """Return sin(p / base ** (i / size)) and cos(p / base ** (i / size)), i = 0, 2, 4 ..., for each position p.

    The result has a last axis of `size` numbers. Vaswani et al., 2017.
    """
    angles = _angles(positions, size, base, dtype)
    pairs = stack(sin(angles), cos(angles), axis=-1)
    return reshape(pairs, shape=(*positions.shape, size))


@spelled
def rotary_embedding(
    x: Value, positions: Value, factors: Weights | None = None, *, base: float = 10000.0, interleaved: bool = False
) -> Value:
    """Return x [..., l, d] with pairs along the last axis rotated by the angles p / base ** (2 * i / d).

    `positions` broadcasts to [..., l], and the angles of each pair are divided by its number in `factors` [d / 2].
    Element i forms a pair with element i + d / 2, as in ONNX; with `interleaved`, element 2 * i forms a pair with
    element 2 * i + 1. Su et al., 2021.
    """
    require(x.dtype in FLOATS, f"needs float32 or float64, not {x.dtype}; cast it first")
    require(x.rank >= 1, "x has no axis of pairs")
    size = size_known(x.shape[-1], "the extent of the last axis")
    angles = _angles(positions, size, base, x.dtype, weights_of(factors, x))
    turn, lift = cos(angles), sin(angles)
    if not interleaved:
        a, b = x[..., : size // 2], x[..., size // 2 :]
        return concat(a * turn - b * lift, a * lift + b * turn, axis=-1)
    pairs = reshape(x, shape=(*x.shape[:-1], size // 2, 2))
    a, b = pairs[..., 0], pairs[..., 1]
    return reshape(stack(a * turn - b * lift, a * lift + b * turn, axis=-1), shape=x.shape)


@spelled
def pixel_shuffle(x: Value, *, factor: int) -> Value:
    """Return images [n, h, w, c * factor**2] as [n, h * factor, w * factor, c].

    The channel order is PyTorch's: channel c * factor**2 + i * factor + j goes to row i and column j of a block. In
    depth_to_space the pixel of a block comes first. Shi et al., 2016.
    """
    require_image(x)
    height, width, channels = (size_known(extent, "an extent of an image") for extent in x.shape[1:])
    require(factor > 0 and channels % factor**2 == 0, f"factor={factor} squared does not divide {channels} channels")
    depth = channels // factor**2
    blocks = reshape(x, shape=(x.shape[0], height, width, depth, factor, factor))
    return reshape(
        transpose(blocks, axis=(0, 1, 4, 2, 5, 3)), shape=(x.shape[0], height * factor, width * factor, depth)
    )


@spelled
def pixel_unshuffle(x: Value, *, factor: int) -> Value:
    """Return images [n, h * factor, w * factor, c] as [n, h, w, c * factor**2]; inverts pixel_shuffle."""
    require_image(x)
    height, width, channels = (size_known(extent, "an extent of an image") for extent in x.shape[1:])
    fits = factor > 0 and height % factor == width % factor == 0
    require(fits, f"blocks of {factor} do not fill {height} x {width} pixels")
    rows, columns = height // factor, width // factor
    blocks = reshape(x, shape=(x.shape[0], rows, factor, columns, factor, channels))
    return reshape(transpose(blocks, axis=(0, 1, 3, 5, 2, 4)), shape=(x.shape[0], rows, columns, channels * factor**2))


def _angles(positions: Value, size: int, base: float, dtype: DTypeName, factors: Value | None = None) -> Value:
    """Return the positions times each frequency, which `factors` divide, along a new last axis of size / 2."""
    require(size > 0 and size % 2 == 0, f"{size} numbers do not make pairs")
    require(base > 0, f"base={base} is not positive")
    numbers = range.on(positions.block)(stop=size // 2, dtype=dtype)
    frequencies = exp(numbers * (-2 * math.log(base) / size))
    if factors is not None:
        fits = factors.shape == (size // 2,)
        require(fits, f"factors has the shape {list(factors.shape)}, not [{size // 2}], one number for each pair")
        frequencies = frequencies / factors
    return unsqueeze(cast(positions, dtype=dtype), axis=(-1,)) * frequencies

"""The transforms of Winograd's minimal filtering F(2 x 2, 3 x 3), of vectors; their factors are 0, 1 and 1/2.

2 x 2 output pixels see 4 x 4 pixels. These and the filter become 16 positions, which are multiplied one by one and
summed over channels; the sums become the output pixels. (Winograd, Arithmetic Complexity of Computations, 1980; Lavin
and Gray, Fast Algorithms for Convolutional Neural Networks, 2016.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from runtime.codegen.ir import Value

TILE_PIXELS: Final = 4
"""Pixels of a tile along an axis, and positions."""

POSITIONS: Final = TILE_PIXELS * TILE_PIXELS
"""Positions of a tile."""

TILE_OUTPUTS: Final = 2
"""Output pixels of a tile along an axis."""

FILTER_TAPS: Final = 3
"""Taps of the filter along an axis."""

Rows = Sequence[Sequence[Value]]


def of_pixels(d: Rows) -> list[list[Value]]:
    """Transform 4 x 4 pixels to 16 positions, with 32 additions."""
    return _along_both(_pixels, d)


def of_taps(g: Rows) -> list[list[Value]]:
    """Transform a 3 x 3 filter to 16 positions."""
    return _along_both(_taps, g)


def of_sums(m: Rows) -> list[list[Value]]:
    """Transform 16 positions to 2 x 2 output pixels, with 24 additions."""
    return _along_both(_sums, m)


def of_gradients(d: Rows) -> list[list[Value]]:
    """Transform the gradients of 2 x 2 output pixels to 16 positions: the transpose of `of_sums`."""
    return _along_both(_gradients, d)


def of_products(u: Rows) -> list[list[Value]]:
    """Transform 16 positions to the gradient of a 3 x 3 filter: the transpose of `of_taps`."""
    return _along_both(_products, u)


def _along_both(line: Callable[[Sequence[Value]], list[Value]], rows: Rows) -> list[list[Value]]:
    columns = [line(column) for column in zip(*rows, strict=True)]
    return [line(row) for row in zip(*columns, strict=True)]


def _pixels(d: Sequence[Value]) -> list[Value]:
    return [d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]]


def _taps(g: Sequence[Value]) -> list[Value]:
    outer, inner = (g[0] + g[2]) * 0.5, g[1] * 0.5
    return [g[0], outer + inner, outer - inner, g[2]]


def _sums(m: Sequence[Value]) -> list[Value]:
    return [m[0] + m[1] + m[2], m[1] - m[2] - m[3]]


def _gradients(d: Sequence[Value]) -> list[Value]:
    return [d[0], d[0] + d[1], d[0] - d[1], -d[1]]


def _products(u: Sequence[Value]) -> list[Value]:
    inner = (u[1] + u[2]) * 0.5
    return [u[0] + inner, (u[1] - u[2]) * 0.5, inner + u[3]]

"""Sums of products of words for the rows of a tile: by vectors, or by the tiles of AMX."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final

from runtime.codegen.ir import Value
from runtime.codegen.kernels.depth import Tile
from runtime.codegen.kernels.matrix_tiles import rows_of_words
from runtime.codegen.kernels.tiles import lines, tile
from runtime.codegen.machine import Target

MIN_MATRIX_ROWS: Final = 6
"""Least number of rows that the tiles of AMX multiply faster than vectors do."""

MIN_MATRIX_WORDS: Final = 16
"""Least number of words of the depth: sums of tiles are written to memory and read again."""

MIN_MATRIX_PRODUCTS: Final = 16384
"""Least number of products of vectors that are worth the description of the tile registers."""


def has_matrix_form(target: Target, rows: int, words: int, products: int) -> bool:
    """Return True if words of bytes should be multiplied by the tiles of AMX.

    Args:
        target: the target.
        rows: rows of a tile.
        words: words of the depth.
        products: number of products of vectors in the whole convolution.
    """
    needed = (rows, MIN_MATRIX_ROWS), (words, MIN_MATRIX_WORDS), (products, MIN_MATRIX_PRODUCTS)
    return target.has_byte_tiles and all(each >= least for each, least in needed)


def rows_of_sums(
    operands: Tile, begun: Callable[[int], Sequence[Value]] | None, *, in_matrix_tiles: bool
) -> Iterator[list[Value]]:
    """Yield the vectors of each row: sums of products, and what `begun` returns for the number of the row."""
    if in_matrix_tiles:
        for i, row in enumerate(rows_of_words(operands)):
            yield [x + y for x, y in zip(row, begun(i), strict=True)] if begun else row
        return
    rows = len(operands.rows)
    first = list(chain.from_iterable(map(begun, range(rows)))) if begun else None
    yield from lines(tile(operands, first), rows)

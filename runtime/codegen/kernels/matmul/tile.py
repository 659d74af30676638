"""A tile of a product of two matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from runtime.codegen.ir import Index, Type, Value
from runtime.codegen.kernels import tiles
from runtime.codegen.kernels.depth import DepthLoop, PairForm, Tile
from runtime.codegen.kernels.matmul.matrix import Matrix

Sums = Iterable[list[Value]]
"""The vectors of a tile by row, which can be taken once, before the next tile is computed."""


def tile(
    left: Matrix,
    right: Matrix,
    rows: int,
    columns: int,
    vector: Type,
    depth: Index,
    *,
    has_whole_block: bool = True,
    along: Callable[[Index], None] | None = None,
    pairs: PairForm | None = None,
) -> Sums:
    """Return the sums of products of `rows` rows of the left operand with `columns` columns of the right one.

    The rows of the right operand are contiguous; the last vector of a row may be partial. A depth that is not a
    constant is at least `UNROLLED_DEPTH_STEPS`, or `has_whole_block` is False. `along` is called with the first of
    every `UNROLLED_DEPTH_STEPS` steps. The other arguments are those of `tiles.tile`; for pairs the depth counts them.
    """
    assert depth == 0 or right.column == 1, f"columns are {right.column} apart"
    offsets, each = [i * left.row for i in range(rows)], 2 if pairs and pairs.is_widened else 1
    loops = [DepthLoop(depth, left.column * each, right.row * each, has_whole_block)]
    asks = [along] if along else ()
    return tiles.rows_of_tile(Tile.of(left.at, offsets, right.at, columns, vector, loops, asks), pairs=pairs)

"""The balanced tree in which the shards of a batch are added, and the parts of it that a rank has.

1. The tree over the shards first to stop has two subtrees. The left one has the largest power of two of shards that is
   smaller than their number; the right one has the rest.
2. Rank r of n has the shards r*K//n to (r+1)*K//n of K.
3. Its parts are the largest subtrees that have no other shards. If K and n are powers of two, it has one part.

Any number of ranks completes the same tree, so it adds the same numbers in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

Range = tuple[int, int]
"""The first shard, and the one after the last."""


def middle_of(shards: Range) -> int:
    """Return the first shard of the right subtree over two or more shards."""
    first, stop = shards
    return first + (1 << (stop - first - 1).bit_length() - 1)


def shards_of(shards: int, rank: int, ranks: int) -> Range:
    """Return the shards of a rank, none if there are fewer shards than ranks."""
    return rank * shards // ranks, (rank + 1) * shards // ranks


@cache
def parts_of(shards: int, rank: int, ranks: int) -> Sequence[Range]:
    """Return the largest subtrees that have shards of a rank only, from left to right; empty for a rank without any."""
    return _inside((0, shards), shards_of(shards, rank, ranks))


def _inside(node: Range, own: Range) -> list[Range]:
    if own[0] <= node[0] and node[1] <= own[1]:
        return [node]
    if node[1] <= own[0] or own[1] <= node[0]:
        return []
    middle = middle_of(node)
    return _inside((node[0], middle), own) + _inside((middle, node[1]), own)

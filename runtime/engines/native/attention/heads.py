"""How the operands of attention lie, and how queries are cut into blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from prograd_proto import TensorType
from runtime.engines.native.emission.nest import Steps, row_major
from runtime.engines.native.ir import DTYPES, Type
from runtime.engines.native.target import Target

MOST_ROWS: Final = 256
"""Queries of a block, so that sums over them are one chain."""

LEAST_ROWS: Final = 32
"""Likewise, so that products are worth their start."""


@dataclass(frozen=True)
class Heads:
    """Sizes and masks.

    Attributes:
        target: what code is for.
        element: of all operands but a mask.
        images, heads, groups: how many there are; `groups` heads have keys and values, for as many queries' heads each.
        queries, keys: how many there are in a head.
        depth, width: elements of a query and a key, and of a value.
        block: queries that are taken at once.
        scale: of scores.
        causal: whether a query sees no later key.
        mask: the elements of a mask, if there is one, and its steps along images, heads, queries and keys.
    """

    target: Target
    element: Type
    images: int
    heads: int
    groups: int
    queries: int
    keys: int
    depth: int
    width: int
    block: int
    scale: float
    causal: bool
    mask: tuple[str, Steps] | None

    @property
    def lanes(self) -> int:
        """Of a vector."""
        return self.target.lanes(self.element.bits)

    @property
    def blocks(self) -> int:
        """Of the queries of a head."""
        return -(-self.queries // self.block)

    @property
    def last(self) -> int:
        """Queries of the last block."""
        return self.queries - self.block * (self.blocks - 1)

    @property
    def row(self) -> int:
        """Elements from one row of weights to the next: a few more than there are keys."""
        return -(-self.keys // self.lanes) * self.lanes + self.lanes

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return self.element.bits // 8

    @property
    def nanoseconds(self) -> float:
        """Of one product of queries with keys and one with values, for all heads; a guess."""
        work = self.images * self.heads * self.queries * self.keys * (self.depth + self.width)
        return work / (self.lanes * 3.0) + self.images * self.heads * self.queries * self.keys * 0.1


def heads_of(
    target: Target, q: TensorType, k: TensorType, v: TensorType, mask: TensorType | None, causal: bool, scale: float
) -> Heads:
    """The sizes of operands of these types."""
    images, heads, queries, depth = q.static_shape
    groups, keys = k.static_shape[1:3]
    seen = None
    if mask is not None:
        seen = mask.dtype, row_major(mask.static_shape, (images, heads, queries, keys))
    element = DTYPES[q.dtype]
    most = min(max(target.l2_bytes // 4 // (keys * element.bits // 8), LEAST_ROWS), MOST_ROWS, queries)
    blocks = -(-queries // most)
    even = [n for n in range(blocks, 2 * blocks + 1) if queries % n == 0]
    block = queries // even[0] if even else -(-queries // blocks)
    width = v.static_shape[3]
    return Heads(target, element, images, heads, groups, queries, keys, depth, width, block, scale, causal, seen)

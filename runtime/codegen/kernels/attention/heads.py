"""How the operands of attention lie, and how queries are cut into blocks."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Final

from prograd_proto import TensorType
from runtime.codegen.costs import SCORE_CYCLES, VECTOR_MULTIPLY_ADD_CYCLES
from runtime.codegen.ir import DTYPES, Index, Type, Value
from runtime.codegen.kernels.matmul.plan import tile_shape
from runtime.codegen.kernels.nest import Strides, row_major
from runtime.codegen.kernels.steps import Work
from runtime.codegen.machine import NOMINAL_L2_BYTES, Target

BLOCK_QUERIES: Final = 32
"""Queries of a block: its weights stay in the nearest cache, and a causal mask leaves out what a block does not see."""

MAX_GRADIENT_QUERIES: Final = 128
"""Queries whose weights a gradient keeps at once, so that sums over them are one chain."""

MIN_BLOCK_QUERIES: Final = 8
"""Queries of a block that has very many keys."""

CAUSAL_SHARE: Final = 0.6
"""Share of the scores that causal attention computes: half of them, and those of blocks on the diagonal."""


@dataclass(frozen=True)
class Heads:
    """Sizes and masks.

    Attributes:
        target: what code is for.
        element: of all operands but a mask.
        images, heads, groups: how many there are; `groups` heads have keys and values, for as many queries' heads each.
        queries, keys: how many there are in a head.
        depth, width: elements of a query and a key, and of a value.
        rows: queries of a block.
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
    rows: int
    scale: float
    causal: bool
    mask: tuple[str, Strides] | None

    @property
    def lanes(self) -> int:
        """Of a vector."""
        return self.target.lanes(self.element.bits)

    @property
    def of_group(self) -> int:
        """Heads of queries that share keys and values."""
        return self.heads // self.groups

    @property
    def blocks(self) -> int:
        """Of the queries of a head."""
        return -(-self.queries // self.rows)

    @property
    def last(self) -> int:
        """Queries of the last block."""
        return self.queries - self.rows * (self.blocks - 1)

    @property
    def together(self) -> int:
        """Blocks whose weights a gradient keeps at once."""
        most = min(NOMINAL_L2_BYTES // 4 // (self.row * self.item), MAX_GRADIENT_QUERIES) // self.rows
        return min(max(most, 1), self.blocks)

    @property
    def panel(self) -> int:
        """Keys that a tile of scores takes."""
        return min(tile_shape(self.target, self.lanes, self.rows, self.keys)[1] * self.lanes, self.wide)

    @property
    def wide(self) -> int:
        """Keys as whole vectors."""
        return -(-self.keys // self.lanes) * self.lanes

    @property
    def row(self) -> int:
        """Elements from one row of weights to the next: some more than there are keys, so rows lie in other places."""
        return self.wide + self.lanes

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return self.element.bits // 8

    @property
    def leaves_out(self) -> bool:
        """Whether a block may see fewer keys than there are."""
        hides = self.causal or (self.mask is not None and self.mask[0] == "bool" and self.mask[1][-1] > 0)
        return hides and self.keys > self.panel

    @property
    def cycles(self) -> float:
        """Cycles of one product of queries with keys and one with values, and of the softmax, for all heads."""
        scores = self.images * self.heads * self.queries * self.keys * (CAUSAL_SHARE if self.causal else 1)
        return scores * ((self.depth + self.width) / self.lanes * VECTOR_MULTIPLY_ADD_CYCLES + SCORE_CYCLES)


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
    most = max(min(BLOCK_QUERIES, NOMINAL_L2_BYTES // 4 // (keys * element.bits // 8)), MIN_BLOCK_QUERIES)
    rows = -(-queries // -(-queries // most))
    width = v.static_shape[3]
    return Heads(target, element, images, heads, groups, queries, keys, depth, width, rows, scale, causal, seen)


@dataclass(frozen=True)
class Block:
    """Some queries of a head.

    Attributes:
        image, head: which.
        first: the first query.
        rows: how many.
    """

    image: Value
    head: Value
    first: Index
    rows: int


def blocks_of(work: Work, heads: Heads, head: Value, number: Value) -> Generator[Block]:
    """The block of a number, written for both sizes if there are two; the head is counted through all images."""
    image, first = head // heads.heads, number * heads.rows
    if heads.rows == heads.last:
        yield Block(image, head % heads.heads, first, heads.rows)
        return
    is_last = number.equal(heads.blocks - 1)
    with work.f.when(~is_last):
        yield Block(image, head % heads.heads, first, heads.rows)
    with work.f.when(is_last):
        yield Block(image, head % heads.heads, (heads.blocks - 1) * heads.rows, heads.last)

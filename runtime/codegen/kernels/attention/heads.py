"""The layout of the operands of attention, and the division of queries into blocks."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final

from prograd_proto import TensorType
from runtime.codegen.costs import SCORE_CYCLES, VECTOR_MULTIPLY_ADD_CYCLES
from runtime.codegen.ir import DTYPES, FLOAT32, Index, Type, Value
from runtime.codegen.kernels.matmul.plan import tile_costs, tile_shape
from runtime.codegen.kernels.nest import Strides, row_major
from runtime.codegen.kernels.steps import KernelContext
from runtime.codegen.machine import NOMINAL_L2_BYTES, NOMINAL_TARGET, Target

BLOCK_QUERIES: Final = 32
"""Queries of a block: its weights stay in the first-level cache, and a causal mask leaves out keys that no query sees.
"""

MAX_GRADIENT_QUERIES: Final = 128
"""Queries whose weights a gradient keeps at once, so that a sum over them is one chain."""

MIN_BLOCK_QUERIES: Final = 8
"""Lower bound on the queries of a block. It applies where the number of keys lets few queries fit in the cache."""

CAUSAL_SHARE: Final = 0.6
"""Share of the scores that causal attention computes: half of them, and those of blocks on the diagonal."""


@dataclass(frozen=True)
class Heads:
    """Sizes and masks.

    Attributes:
        target: the target of the code.
        element: type of all operands but a mask.
        images: number of images.
        heads: number of heads with queries.
        groups: number of heads with keys and values; an equal number of heads with queries shares each.
        queries, keys: their numbers in a head.
        depth, width: elements of a query and a key, and of a value.
        rows: queries of a block.
        scale: factor of the scores.
        causal: True if a query sees no later key.
        mask: dtype of the mask, if there is one, and its strides along images, heads, queries and keys.
        of_pairs: True if products are of pairs of bfloat16; sums and weights are float32.
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
    of_pairs: bool

    @property
    def lanes(self) -> int:
        """Lanes of a vector."""
        return self.target.lanes(self.element.bits)

    @property
    def of_group(self) -> int:
        """Number of heads with queries that share the keys and values of one group."""
        return self.heads // self.groups

    @property
    def blocks(self) -> int:
        """Blocks of the queries of a head."""
        return -(-self.queries // self.rows)

    @property
    def last(self) -> int:
        """Queries of the last block."""
        return self.queries - self.rows * (self.blocks - 1)

    @property
    def together(self) -> int:
        """Blocks whose weights a gradient keeps at once."""
        row = self.wide + self.sum_lanes
        most = min(NOMINAL_L2_BYTES // 4 // (row * self.item), MAX_GRADIENT_QUERIES) // self.rows
        return min(max(most, 1), self.blocks)

    @property
    def panel(self) -> int:
        """Keys of a tile of scores."""
        return min(self.score_tile[1] * self.lanes, self.wide)

    @property
    def score_tile(self) -> tuple[int, int]:
        """Rows and vectors of a tile of scores, whose keys divide a nominal panel.

        Of pairs, it has whole nominal vectors.
        """
        costs = tile_costs(self.target, self.lanes, self.rows, self.keys, of_pairs=self.of_pairs)
        width, multiple = self._nominal_width, self.sum_lanes if self.of_pairs else self.lanes
        whole = [shape for shape in costs if width % (keys := shape[1] * self.lanes) == 0 and keys % multiple == 0]
        return min(whole, key=lambda shape: costs[shape]) if whole else (2, self.nominal_vectors)

    @property
    def nominal_panel(self) -> int:
        """Keys that a block leaves out together: those of a tile of scores on the nominal target."""
        return min(self._nominal_width, self.wide)

    @property
    def _nominal_width(self) -> int:
        nominal = NOMINAL_TARGET if self.of_pairs else self.target.nominal
        return tile_shape(nominal, self.sum_lanes, self.rows, self.keys)[1] * self.sum_lanes

    @property
    def nominal_vectors(self) -> int:
        """Vectors that are as long as one of `sum_lanes`, in which rows of weights are added."""
        return self.sum_lanes // self.lanes

    @property
    def sum_lanes(self) -> int:
        """Lanes in which rows of weights are added: those of a nominal vector."""
        nominal = NOMINAL_TARGET if self.of_pairs else self.target.nominal
        return nominal.lanes(self.element.bits)

    @property
    def wide(self) -> int:
        """Keys, rounded up to whole vectors."""
        return -(-self.keys // self.sum_lanes) * self.sum_lanes

    @property
    def row(self) -> int:
        """Stride of the rows of weights: more than the keys, so that rows fall into other cache sets."""
        return self.wide + self.lanes

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return self.element.bits // 8

    @property
    def leaves_out(self) -> bool:
        """True if a block may see fewer keys than there are."""
        hides = self.causal or (self.mask is not None and self.mask[0] == "bool" and self.mask[1][-1] > 0)
        return hides and self.keys > self.nominal_panel

    @property
    def cycles(self) -> float:
        """Cycles of the scores, their softmax, and the product with the values, for all heads."""
        scores = self.images * self.heads * self.queries * self.keys * (CAUSAL_SHARE if self.causal else 1)
        lanes = self.lanes * (2 if self.of_pairs else 1)
        return scores * ((self.depth + self.width) / lanes * VECTOR_MULTIPLY_ADD_CYCLES + SCORE_CYCLES)


def heads_of(
    target: Target, q: TensorType, k: TensorType, v: TensorType, mask: TensorType | None, causal: bool, scale: float
) -> Heads:
    """Return the sizes of operands of these types."""
    images, heads, queries, depth = q.static_shape
    groups, keys = k.static_shape[1:3]
    seen = None
    if mask is not None:
        seen = mask.dtype, row_major(mask.static_shape, (images, heads, queries, keys))
    of_pairs = q.dtype == "bfloat16"
    element = FLOAT32 if of_pairs else DTYPES[q.dtype]
    most = max(min(BLOCK_QUERIES, NOMINAL_L2_BYTES // 4 // (keys * element.bits // 8)), MIN_BLOCK_QUERIES)
    rows = -(-queries // -(-queries // most))
    width = v.static_shape[3]
    return Heads(
        target, element, images, heads, groups, queries, keys, depth, width, rows, scale, causal, seen, of_pairs
    )


@dataclass(frozen=True)
class Block:
    """Some queries of a head.

    Attributes:
        image, head: their numbers.
        first: number of the first query.
        rows: number of queries.
    """

    image: Value
    head: Value
    first: Index
    rows: int


def over_blocks(
    context: KernelContext,
    heads: Heads,
    start: Value,
    stop: Value,
    begin_group: Callable[[Value], None],
    write: Callable[[Value, Block], None],
) -> None:
    """Write the blocks from `start` to `stop`, counted through all heads; begin each group of heads before its first.

    Args:
        context: the arguments of the kernel step.
        heads: the sizes.
        start: number of the first block.
        stop: number of the block after the last one.
        begin_group: function that packs the keys and values of a numbered group.
        write: function that writes the results of a block of a numbered head.
    """
    f = context.f
    for item in f.range(start, stop):
        item = f.index(item)
        head, number = item // heads.blocks, item % heads.blocks
        is_new = number.equal(0) if heads.of_group == 1 else (item % (heads.blocks * heads.of_group)).equal(0)
        with f.when(is_new | item.equal(start)):
            begin_group(head // heads.of_group)
        for block in blocks_of(context, heads, head, number):
            write(head, block)


def blocks_of(context: KernelContext, heads: Heads, head: Value, number: Value) -> Generator[Block]:
    """Yield block `number` of a head, once for each size that it may have; heads are counted through all images."""
    image, first = head // heads.heads, number * heads.rows
    if heads.rows == heads.last:
        yield Block(image, head % heads.heads, first, heads.rows)
        return
    is_last = number.equal(heads.blocks - 1)
    with context.f.when(~is_last):
        yield Block(image, head % heads.heads, first, heads.rows)
    with context.f.when(is_last):
        yield Block(image, head % heads.heads, (heads.blocks - 1) * heads.rows, heads.last)

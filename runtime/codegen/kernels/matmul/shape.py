"""A product as matrices, and decisions by its sizes alone: nothing here depends on how its operands are computed."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final, NamedTuple

from runtime.codegen.costs import (
    BROKEN_CHAIN_CYCLES,
    MULTIPLY_ADDS_PER_CYCLE,
    PACKED_ELEMENT_CYCLES,
    PANEL_STEP_CYCLES,
    SHARED_PANELS_GAIN,
)
from runtime.codegen.kernels.nest import Nest
from runtime.codegen.kernels.pair_products import GROUP_PAIRS
from runtime.codegen.machine import NOMINAL_LANES

MIN_ROWS_PER_WEIGHT_ROW: Final = 2
"""Rows of a batch for each input of a layer from which on the rows outweigh the weights, which are read and written."""


MIN_LOCALITY_BYTES: Final = 1 << 14
"""Bytes of weights or rows from which on it matters in which core's caches they are."""


MAX_HALVED_SUMS: Final = 1 << 14
"""Upper bound on the elements of a gradient of weights whose halves of a batch are summed separately.

These sums are written and read again.
"""


MIN_HALVED_DEPTH: Final = 128
"""Least depth that is split into halves."""


MOST_FEW_ROWS: Final = 4
"""Upper bound on the rows of a product that reads its weights as they lie: more take longer than copies of weights."""


LEAST_WEIGHTS: Final = 4096
"""Elements of weights from which on few rows read them as they lie; the code for smaller ones should be short."""


class ProductShape(NamedTuple):
    """A product as matrices.

    Attributes:
        loops: loops around it, and its rows and columns.
        m, n, k: rows, columns, depth; the depth of bfloat16 operands counts pairs.
        left, right: strides of its operands, in their elements.
        is_transposed: True if operands are exchanged, and rows and columns with them: one column is computed as a row,
            and few rows as columns.
        computed: True for the left and the right operand if it is computed where it is packed.
        depth: number of elements of the depth, if they are bfloat16; otherwise 0.
    """

    loops: Nest
    m: int
    n: int
    k: int
    left: tuple[int, int]
    right: tuple[int, int]
    is_transposed: bool = False
    computed: tuple[bool, bool] = (False, False)
    depth: int = 0

    @property
    def of_pairs(self) -> bool:
        """True if an element of the depth is a pair of bfloat16."""
        return self.depth > 0

    @property
    def packed(self) -> tuple[bool, bool]:
        """True for the left and the right operand if it has to be packed.

        Pairs in memory are the left operand if its rows are contiguous and have an even number of elements.
        """
        if not self.of_pairs:
            return self.computed
        in_words = self.left[1] == 1 and self.left[0] % 2 == 0 and self.depth % 2 == 0
        return self.computed[0] or not in_words, True

    @property
    def reads_pairs(self) -> bool:
        """True for few rows of pairs by an operand that is read as it lies: whole pairs, contiguous along the depth."""
        is_whole = self.of_pairs and self.depth % 2 == 0 and self.k >= GROUP_PAIRS
        return is_whole and self.m <= MOST_FEW_ROWS and self.right[0] == 1 and self.depth * self.n >= LEAST_WEIGHTS

    @property
    def is_of_weights(self) -> bool:
        """True if the result is a gradient of weights.

        Its depth is rows of a batch, along which the left operand is contiguous.
        """
        return self.is_transposed or self.left[1] != 1

    @property
    def keeps_batch(self) -> bool:
        """True if each thread keeps rows of a batch, and weights move between cores; otherwise the other way round.

        The moving data are the weights, read and written again, or a result for every row of the batch.
        """
        batch = self.k if self.is_of_weights else self.m
        inputs = (
            max(self.m, self.n)
            if self.is_transposed
            else self.m
            if self.is_of_weights
            else self.k
            if self.right[1] == 1
            else self.n
        )
        return batch >= MIN_ROWS_PER_WEIGHT_ROW * inputs

    @property
    def kept(self) -> int:
        """Elements of the data that stay in the same caches."""
        return self._batch if self.keeps_batch else self._weights

    @property
    def _weights(self) -> int:
        return self.n * (self.m if self.is_of_weights else self.k)

    @property
    def _batch(self) -> int:
        return self.k * (self.m + self.n) if self.is_of_weights else self.m * (self.k + self.n)


def is_of_few_rows(left: Sequence[int], right: Sequence[int], depth: int, domain: Sequence[int]) -> bool:
    """Return True for few rows times each matrix, if the elements of both along the depth are contiguous.

    Args:
        left: strides of the left operand along the domain, and along the depth.
        right: those of the right operand.
        depth: the depth.
        domain: shape of the result.
    """
    rows = prod(extent for extent, step in zip(domain[:-1], right[:-2], strict=True) if not step)
    along_depth = left[-1] == right[-1] == 1 != right[-2] and depth * domain[-1] >= LEAST_WEIGHTS
    return domain[-1] > 1 and along_depth and rows <= MOST_FEW_ROWS


def is_halved(shape: ProductShape, bits: int) -> bool:
    """Return True if the data that stay in the same caches lie along the depth, and exceed the sums of its halves."""
    if prod(shape.loops.extents[:-2]) > 1 or shape.k % 2 or shape.k < MIN_HALVED_DEPTH or shape.right[1] != 1:
        return False
    if shape.is_of_weights:
        kept = shape.k * (shape.m + shape.n)
        return shape.keeps_batch and kept * bits // 8 >= MIN_LOCALITY_BYTES and shape.m * shape.n <= MAX_HALVED_SUMS
    kept = shape.k * shape.n
    return not shape.keeps_batch and kept * bits // 8 >= MIN_LOCALITY_BYTES and shape.k >= shape.m


WHOLE_COLUMN_ROWS: Final = range(96, 513)
"""Rows of a gradient of weights whose work items are columns of all rows."""


MIN_ITEM_COLUMNS: Final = 64
"""Least number of columns of such a work item."""


def shares_panels(shape: ProductShape, *, is_prepacked: bool) -> bool:
    """Return True if panels of the right operand that all work items share are cheaper than copies of every part.

    The alternative is a partition whose parts copy their operands themselves. Panels save a share of the multiply-adds'
    cycles, and need a kernel step, which lasts as long as its copy or as the threads wait for each other. Prepacked
    panels need none, but the rows of the left operand leave the caches of their threads, which ends a tiled chain.
    This choice sets the order of additions, so it prices the work for a nominal machine, not for a target.
    """
    if prod(shape.loops.extents[:-2]) > 1:
        return False
    multiply = shape.m * shape.n * shape.k / (NOMINAL_LANES * MULTIPLY_ADDS_PER_CYCLE)
    copy, saved = shape.n * shape.k * PACKED_ELEMENT_CYCLES, multiply * SHARED_PANELS_GAIN
    if is_prepacked:
        return multiply >= copy and saved >= BROKEN_CHAIN_CYCLES  # otherwise it waits for the operand in any cache
    return saved >= (PANEL_STEP_CYCLES if is_of_all_rows(shape) else max(PANEL_STEP_CYCLES, copy))


def is_of_all_rows(shape: ProductShape) -> bool:
    """Return True if work items are columns of all rows."""
    is_wide = shape.n >= 2 * MIN_ITEM_COLUMNS and shape.right[1] == 1
    return shape.is_of_weights and shape.m in WHOLE_COLUMN_ROWS and is_wide

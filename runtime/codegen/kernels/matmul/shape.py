"""A product as matrices, and what its sizes alone decide: nothing here depends on how its operands are computed."""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple

from runtime.codegen.kernels.nest import Nest

TIMES: Final = 2
"""The inputs of a layer, so many rows of a batch are more than its weights: these are read and written again."""


LEAST_BYTES: Final = 1 << 14
"""Of weights or rows of which it matters where they are."""


MOST_SUMS: Final = 1 << 14
"""Elements of a gradient of weights of which each half of a batch has its own: they are written and read again."""


LEAST_DEPTH: Final = 128
"""That is cut in halves."""


class Shape(NamedTuple):
    """A product as matrices.

    Attributes:
        loops: around it, and its rows and columns.
        m, n, k: rows, columns, depth.
        left, right: the strides of its operands.
        is_turned: whether these have changed places, and rows and columns with them: one column is computed as a row.
    """

    loops: Nest
    m: int
    n: int
    k: int
    left: tuple[int, int]
    right: tuple[int, int]
    is_turned: bool = False

    @property
    def is_of_weights(self) -> bool:
        """Whether the result is a gradient of weights: rows of a batch are its depth, and along those the left lies."""
        return self.is_turned or self.left[1] != 1

    @property
    def keeps_batch(self) -> bool:
        """Whether rows of a batch stay with a thread, and weights go from core to core; else the other way round.

        What goes is the weights, read and written again, or a result for every row of the batch.
        """
        batch = self.k if self.is_of_weights else self.m
        inputs = (
            max(self.m, self.n)
            if self.is_turned
            else self.m
            if self.is_of_weights
            else self.k
            if self.right[1] == 1
            else self.n
        )
        return batch >= TIMES * inputs

    @property
    def kept(self) -> int:
        """Elements of what stays where it is."""
        return self._batch if self.keeps_batch else self._weights

    @property
    def _weights(self) -> int:
        return self.n * (self.m if self.is_of_weights else self.k)

    @property
    def _batch(self) -> int:
        return self.k * (self.m + self.n) if self.is_of_weights else self.m * (self.k + self.n)


def is_halved(shape: Shape, bits: int) -> bool:
    """Return True if what stays where it is lies along the depth, and is more than the sums of its halves."""
    if prod(shape.loops.extents[:-2]) > 1 or shape.k % 2 or shape.k < LEAST_DEPTH or shape.right[1] != 1:
        return False
    if shape.is_of_weights:
        kept = shape.k * (shape.m + shape.n)
        return shape.keeps_batch and kept * bits // 8 >= LEAST_BYTES and shape.m * shape.n <= MOST_SUMS
    kept = shape.k * shape.n
    return not shape.keeps_batch and kept * bits // 8 >= LEAST_BYTES and shape.k >= shape.m


LEAST: Final = 1 << 26
"""Multiply-adds: fewer do not wait for a stage that copies."""


LEAST_PREPACKED: Final = 1 << 20
"""Likewise, of a right operand that is prepacked: smaller ones go with their rows from layer to layer."""


LEAST_ROWS_PREPACKED: Final = 16
"""Likewise: few rows take as long as reading the operand, wherever it lies."""


LEAST_ROWS: Final = 256
"""So that a copy of the right operand is used often."""


ALL_ROWS: Final = range(96, 513)
"""Of a gradient of weights whose units are columns of all rows."""


LEAST_COLUMNS: Final = 64
"""Of such a unit."""


def is_large_shape(shape: Shape, *, is_prepacked: bool) -> bool:
    """Return True if it pays to copy the right operand first; if that is prepacked, it costs nothing."""
    work = shape.m * shape.n * shape.k
    if prod(shape.loops.extents[:-2]) > 1:
        return False
    if is_prepacked:
        return work >= LEAST_PREPACKED and shape.m >= LEAST_ROWS_PREPACKED
    rows = shape.m >= LEAST_ROWS or is_of_all_rows(shape)
    return work >= LEAST and rows


def is_of_all_rows(shape: Shape) -> bool:
    """Whether units are columns of all rows."""
    is_wide = shape.n >= 2 * LEAST_COLUMNS and shape.right[1] == 1
    return shape.is_of_weights and shape.m in ALL_ROWS and is_wide

"""The operands of a tile: its rows, the vectors of a row of its right operand, and its depth as loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from runtime.codegen.ir import Function, Index, Type, Value

UNROLLED_DEPTH_STEPS: Final = 4
"""Steps of the innermost depth loop that are written out in its body."""


class DepthLoop(NamedTuple):
    """A loop of the depth.

    Attributes:
        iterations: number of iterations.
        left, right: elements from one iteration to the next in each operand.
        has_whole_block: whether at least `UNROLLED_DEPTH_STEPS` iterations run where their number is not a constant.
    """

    iterations: Index
    left: Index
    right: Index
    has_whole_block: bool = False


class PanelVector(NamedTuple):
    """A vector of a row of the right operand: its first column, and the number of its lanes that count."""

    first: int
    tail: int


Prefetch = Callable[[Index], None]
"""Prefetches data for later use. Its argument is the first of `UNROLLED_DEPTH_STEPS` steps of the innermost loop."""


class PairForm(NamedTuple):
    """The form of pairs of bfloat16 in operands: words, unless a copy has another one.

    Attributes:
        is_widened: True if the two elements of a pair are float32, half of the stride of pairs from each other.
        is_chained: True if words of whole groups of pairs hold neighbours of a chain; see `kernels.pair_chains`.
        chains_rest: True if those of the pairs behind whole groups do too; their number is then a constant.
    """

    is_widened: bool = False
    is_chained: bool = False
    chains_rest: bool = False


class Tile(NamedTuple):
    """The operands of a tile.

    Attributes:
        left: address of the left operand.
        rows: the offset of each row from that address, in elements.
        right: address of the right operand.
        vectors: the vectors of a row of the right operand.
        vector: their type. Integers are words of `kernels.integers.words`; the left operand consists of the elements
            of words then.
        depth: the loops of the depth, the innermost last.
        asks: prefetches along the innermost loop.
    """

    left: Value
    rows: Sequence[int]
    right: Value
    vectors: Sequence[PanelVector]
    vector: Type
    depth: Sequence[DepthLoop]
    asks: Sequence[Prefetch] = ()

    @classmethod
    def of(
        cls,
        left: Value,
        rows: Sequence[int],
        right: Value,
        columns: int,
        vector: Type,
        depth: Sequence[DepthLoop],
        asks: Sequence[Prefetch] = (),
    ) -> Tile:
        """Return the operands of a tile whose rows of the right operand are contiguous."""
        vectors = [PanelVector(j, min(vector.lanes, columns - j)) for j in range(0, columns, vector.lanes)]
        return cls(left, rows, right, vectors, vector, depth, asks)

    @property
    def f(self) -> Function:
        """The function that the tile is written into."""
        return self.left.function

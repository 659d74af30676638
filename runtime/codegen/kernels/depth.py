"""The depth of a product as loops, and the vectors of a row of its right operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from runtime.codegen.ir import Index

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

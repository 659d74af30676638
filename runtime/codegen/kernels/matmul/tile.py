"""The rows and vectors of a result that fit into registers, along the depth.

A step of the depth loads the vectors of the right operand once, and one element of the left operand for each row, which
it spreads over the lanes. Nothing is stored until the depth is done, so sums never leave their registers.
"""

from __future__ import annotations

from collections.abc import Callable

from runtime.codegen.ir import Function, Index, Type, Value
from runtime.codegen.kernels.matmul.matrix import Matrix
from runtime.codegen.kernels.matmul.plan import UNROLLED_DEPTH_STEPS

Sums = list[list[Value]]
"""By row, the vectors of a tile."""


def tile(
    f: Function,
    left: Matrix,
    right: Matrix,
    rows: int,
    columns: int,
    vector: Type,
    depth: Index,
    *,
    turns: bool = True,
    along: Callable[[Index], None] | None = None,
) -> Sums:
    """The sums of products of `rows` rows of the left operand with `columns` columns of the right one.

    The right operand lies along its rows; a last vector that is not full is read in part. A depth that is not known
    while the IR is written is at least UNROLL, or `turns` is False. `along` is called with the first of every UNROLL
    steps.
    """
    lanes = vector.lanes
    tails = [min(lanes, columns - j) for j in range(0, columns, lanes)]

    def step(sums: list[Value], at: Matrix, beside: Matrix, u: int) -> list[Value]:
        line = [beside.along_row(u, j * lanes, lanes, tail) for j, tail in enumerate(tails)]
        out: list[Value] = []
        for i in range(rows):
            x = f.splat(at.element(i, u), lanes)
            out += [f.fma(x, y, s) for y, s in zip(line, sums[len(out) : len(out) + len(line)], strict=True)]
        return out

    def steps(sums: list[Value], start: Index, stop: Index, count: int, turns: bool) -> list[Value]:
        loop = f.loop(start, stop, count, sums, turns=turns)
        for k, carried in loop:
            at, beside = left.moved(0, k), right.moved(k, 0)
            if along is not None and count == UNROLLED_DEPTH_STEPS:
                along(k)
            for u in range(count):
                carried = step(carried, at, beside, u)
            loop.carry(carried)
        return loop.results

    sums = [f.constant(vector, 0)] * (rows * len(tails))
    whole = (
        depth // UNROLLED_DEPTH_STEPS * UNROLLED_DEPTH_STEPS
        if isinstance(depth, int)
        else depth & -UNROLLED_DEPTH_STEPS
    )
    sums = steps(sums, 0, whole, UNROLLED_DEPTH_STEPS, turns=turns)
    sums = steps(sums, whole, depth, 1, turns=False)
    return [sums[i * len(tails) : (i + 1) * len(tails)] for i in range(rows)]

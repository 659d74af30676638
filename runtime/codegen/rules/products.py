"""Products of matrices, one or many, and sums of outer products."""

from __future__ import annotations

from math import prod
from typing import Final

from runtime.codegen.kernels.moves import Layout
from runtime.codegen.rules.rule import FLOAT_DTYPES, RULES, Factors, Product


def matmul(a: Layout, b: Layout, transpose_a: bool, transpose_b: bool) -> Factors:
    """Return the loops of a product of the last two axes; leading axes broadcast."""
    (_, k), (row, depth_of_a) = ((x[-2:][::-1] if transpose_a else x[-2:]) for x in a)
    depth_of_b, column = b.strides[-2:][::-1] if transpose_b else b.strides[-2:]
    leading = max(len(a.shape), len(b.shape)) - 2
    left = [*_leading(a, leading), row, 0]
    right = [*_leading(b, leading), 0, column]
    return Factors(k, (*left, depth_of_a), (*right, depth_of_b))


def outer_sum(a: Layout, b: Layout) -> Factors | None:
    """Return the loops of a sum of outer products over all axes but the last; None if these do not join to one."""
    depths = [Layout(x.shape[:-1], x.strides[:-1]).runs for x in (a, b)]
    if any(len(runs) > 1 for runs in depths):
        return None
    depth, [of_a, of_b] = prod(a.shape[:-1]), [runs[0][1] if runs else 0 for runs in depths]
    return Factors(depth, (a.strides[-1], 0, of_a), (0, b.strides[-1], of_b))


def _leading(x: Layout, rank: int) -> list[int]:
    """Return the strides of leading axes, in elements, for `rank` axes."""
    steps = Layout(x.shape[:-2], x.strides[:-2]).along(x.shape[:-2])
    return [0] * (rank - len(steps)) + [*steps]


FACTOR_DTYPES: Final = FLOAT_DTYPES | {"bfloat16"}
"""Dtypes of factors; those of bfloat16 have sums of float32."""

RULES["matmul"] = Product(matmul, FACTOR_DTYPES)
RULES["outer_sum"] = Product(outer_sum, FACTOR_DTYPES)

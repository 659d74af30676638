"""Products of matrices, one or many, and sums of outer products."""

from __future__ import annotations

from math import prod

from prograd_proto import TensorType
from runtime.engines.native.forms.form import FORMS, Factors, Product


def matmul(a: TensorType, b: TensorType, transpose_a: bool, transpose_b: bool) -> Factors:
    """The last two axes are the matrices', those before broadcast."""
    (m, k), (_, n) = (_turned(type.static_shape[-2:], by) for type, by in ((a, transpose_a), (b, transpose_b)))
    rows, columns = (1, m) if transpose_a else (k, 1), (1, k) if transpose_b else (n, 1)
    leading = max(a.rank, b.rank) - 2
    left = [*_leading(a.static_shape[:-2], m * k, leading), rows[0], 0]
    right = [*_leading(b.static_shape[:-2], k * n, leading), 0, columns[1]]
    return Factors(k, (*left, rows[1]), (*right, columns[0]))


def outer_sum(a: TensorType, b: TensorType) -> Factors:
    """All axes but the last are the depth."""
    *lead, m = a.static_shape
    n = b.static_shape[-1]
    return Factors(prod(lead), (1, 0, m), (0, 1, n))


def _turned(shape: tuple[int, ...], turned: bool) -> tuple[int, ...]:
    return shape[::-1] if turned else shape


def _leading(shape: tuple[int, ...], matrix: int, rank: int) -> list[int]:
    """Elements from one matrix to the next, for each of so many axes."""
    steps: list[int] = []
    for extent in reversed(shape):
        steps.append(matrix if extent > 1 else 0)
        matrix *= extent
    return [0] * (rank - len(shape)) + steps[::-1]


FORMS["matmul"] = Product(matmul)
FORMS["outer_sum"] = Product(outer_sum)

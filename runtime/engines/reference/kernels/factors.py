"""Factors of bfloat16: products widen them to float32 and add in blocks of the depth.

A product of two bfloat16 numbers is exact in float32. The contract of these products, which all engines share, is in
docs/half-floats.md: numbers below the least normal one count as 0, and blocks of the depth are added in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from prograd_proto import TensorType
from runtime.kernel import Array

BLOCK_DEPTH: Final = 512
"""Upper bound on the depth of a block of a product of bfloat16 factors."""

LEAST_NORMAL: Final = np.float32(2.0**-126)
"""The least normal number of float32 and of bfloat16."""


def sum_dtype(dtype: str) -> str:
    """Return the dtype of sums of products of factors of this dtype."""
    return "float32" if dtype == "bfloat16" else dtype


def widened_types(*factors: TensorType) -> list[TensorType]:
    """Return the scratch types of factors in the dtype of their sums; none where they have it already."""
    return [TensorType("float32", x.shape) for x in factors if x.dtype == "bfloat16"]


def widened(bits: Array, out: Array) -> Array:
    """Widen the bits of bfloat16 to float32; numbers below the least normal one become 0."""
    whole = out.view(np.uint32)
    np.copyto(whole, bits)
    np.left_shift(whole, 16, whole)
    flush(out)
    return out


def flush(x: Array) -> None:
    """Set numbers below the least normal one to 0."""
    np.copyto(x, 0, where=(np.abs(x) < LEAST_NORMAL) & (x != 0))


def wide_type(x: TensorType) -> TensorType:
    """Return the type of a factor in the dtype of its sums."""
    return TensorType(sum_dtype(x.dtype), x.shape)


def in_sum_dtype(a: Array, b: Array, scratch: Sequence[Array]) -> tuple[Array, Array, Sequence[Array]]:
    """Return factors in the dtype of their sums, and the scratch that is left; the first two arrays are of the factors.

    Factors of float32 and float64 are returned as they are, with all scratch.
    """
    if a.dtype != np.uint16:
        return a, b, scratch
    return widened(a, scratch[0]), widened(b, scratch[1]), scratch[2:]


def all_widened(factors: Sequence[Array], scratch: Sequence[Array]) -> tuple[list[Array], Sequence[Array]]:
    """Return factors of bfloat16 as float32, and the scratch that is left; others as they are, with all scratch."""
    if factors[0].dtype != np.uint16:
        return list(factors), scratch
    return [widened(x, out) for x, out in zip(factors, scratch, strict=False)], scratch[len(factors) :]


def blockwise_matmul(a: Array, b: Array, out: Array, part: Sequence[Array]) -> None:
    """Write the product of widened factors; `part` is scratch like `out`, if the depth exceeds a block."""
    np.matmul(a[..., :BLOCK_DEPTH], b[..., :BLOCK_DEPTH, :], out)
    flush(out)
    for start in range(BLOCK_DEPTH, a.shape[-1], BLOCK_DEPTH):
        stop, one = start + BLOCK_DEPTH, part[0].reshape(out.shape)
        np.matmul(a[..., start:stop], b[..., start:stop, :], one)
        flush(one)
        np.add(out, one, out)

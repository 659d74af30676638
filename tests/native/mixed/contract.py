"""Products of bfloat16 by the contract of docs/half-floats.md, in NumPy, for matrices of float32.

A sum of a product and a number is exact in float64 but for one rounding. That rounding is to odd, so that the second
one, to float32, gives what a single rounding would give (Boldo and Melquiond, 2008).
"""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

LEAST_NORMAL = 2.0**-126

BLOCK = 512
"""Upper bound on the elements of a block of the depth."""


def product(a: Array, b: Array, size: int = 0) -> Array:
    """Return a @ b by the contract: blocks of `size` of the depth, added in order, each of groups of 32 elements.

    The elements of a group with even numbers are a chain, those with odd numbers another. Both are added, then their
    sum is added to the block.
    """
    depth = a.shape[1]
    total = None
    for p in range(0, max(depth, 1), size := size or block(depth)):
        x, y = in_pairs(a[:, p : p + size], b[p : p + size])
        chain = np.zeros((len(a), b.shape[1]), "f4")
        for start in range(0, x.shape[1], 32):
            even, odd = np.zeros_like(chain), np.zeros_like(chain)
            for k in range(start, min(start + 32, x.shape[1]), 2):
                even = multiply_add(x[:, k, None], y[None, k], even)
                odd = multiply_add(x[:, k + 1, None], y[None, k + 1], odd)
            if start > 0 and x.shape[1] < start + 32:  # it ends with zeros, so a sum of -0 becomes 0
                even, odd = (multiply_add(np.zeros_like(chain), np.zeros_like(chain), each) for each in (even, odd))
            one = np.ones_like(chain)
            chain = multiply_add(multiply_add(even, one, odd), one, chain)
        with np.errstate(all="ignore"):
            total = chain if total is None else total + chain
    assert total is not None
    return total


def product_of_pairs(a: Array, b: Array, size: int = 0) -> Array:
    """Return a @ b in the order of pairs: in each block one chain, the second element of a pair before the first."""
    depth, total = a.shape[1], None
    for p in range(0, max(depth, 1), size := size or block(depth)):
        x, y = in_pairs(a[:, p : p + size], b[p : p + size])
        chain = np.zeros((len(a), b.shape[1]), "f4")
        for k in range(0, x.shape[1], 2):
            chain = multiply_add(x[:, k + 1, None], y[None, k + 1], chain)
            chain = multiply_add(x[:, k, None], y[None, k], chain)
        with np.errstate(all="ignore"):
            total = chain if total is None else total + chain
    assert total is not None
    return total


def in_pairs(x: Array, y: Array) -> tuple[Array, Array]:
    """Return operands whose depth is even: the last pair of an odd one has a second element 0, which is multiplied too.

    So a sum of -0 becomes 0.
    """
    odd = x.shape[1] % 2
    return np.pad(x, ((0, 0), (0, odd))), np.pad(y, ((0, odd), (0, 0)))


def block(depth: int) -> int:
    """Return the elements of a block: equal blocks of at most `BLOCK`, each a multiple of 4 pairs."""
    if depth <= BLOCK:
        return max(depth, 1)
    pairs = ceil(depth / 2)
    blocks = ceil(pairs / (BLOCK // 2))
    return ceil(ceil(pairs / blocks) / 4) * 8


def multiply_add(a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c of float32 arrays, rounded once; operands and results below the least normal number are 0."""
    with np.errstate(all="ignore"):
        x, y, z = (np.where(np.abs(v) < LEAST_NORMAL, np.copysign(0.0, v), v.astype("f8")) for v in (a, b, c))
        exact = x * y
        near = exact + z
        back = near - exact
        error = (exact - (near - back)) + (z - back)
        is_even = (near.view("i8") & 1) == 0
        changes = is_even & (error != 0) & np.isfinite(near)
        odd = np.where(changes, np.nextafter(near, np.where(error > 0, np.inf, -np.inf)), near)
        tiny = np.abs(odd) < LEAST_NORMAL - 2.0**-151  # less than what rounds to the least normal number
        return np.where(tiny, np.copysign(0, odd), odd).astype("f4")

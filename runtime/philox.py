"""Random numbers by counter: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).

The random bits of a stream are a function of the seed, the stream's number, the step and their position only. They do
not change when they are drawn in pieces, in another order or again. docs/format.md has the definition with known
answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Protocol

import numpy as np

from runtime.dtypes import Array

SHUFFLE_STREAM: Final = 0xFFFFFFFF
"""Number of the stream that orders rows; operators have smaller ones."""

ITERATION_STREAM: Final = 0xFFFFFFFE
"""Number of the stream that makes the steps of iterations."""

BLOCKS_AT_A_TIME: Final = 2048
"""Number of four-word blocks that are computed at a time; their work space fits into a second-level cache."""

WORK_ROWS: Final = 6
"""Number of vectors of one element per block that `fill_random_bits` needs."""

_ROUNDS = 10
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85
_MASK = np.array(0xFFFFFFFF, np.uint64)
_HALF = np.array(32, np.uint64)
_FACTORS = [np.array(multiplier, np.uint64) for multiplier in _MULTIPLIERS]


class RandomBits(Protocol):
    """A function that computes random bits as `fill_random_bits` does."""

    def __call__(self, out: Array, seed: int, stream: int, step: int, first: int) -> bool:
        """Fill `out` and return True, or return False if another way is faster."""
        ...


_faster: list[RandomBits] = []


def use_random_bits_by(words: RandomBits) -> None:
    """Use another function for random bits from now on; it computes the same bits faster where it returns True."""
    _faster[:] = [words]


def fill_random_bits(out: Array, work: Array, *, seed: int, stream: int, step: int, first: int = 0) -> None:
    """Fill `out` with words 4 * first, 4 * first + 1, ... of a stream's random bits.

    Args:
        out: uint32 [4 * n].
        work: uint64 [WORK_ROWS, n], overwritten.
        seed: the key; any int64.
        stream: stream number below 2**32.
        step: step number from 0, below 2**64.
        first: number of the first block, 32 bits.
    """
    if not (_faster and _faster[0](out, seed, stream, step, first)):
        random_bits_by_numpy(out, work, seed=seed, stream=stream, step=step, first=first)


def random_bits_by_numpy(out: Array, work: Array, *, seed: int, stream: int, step: int, first: int = 0) -> None:
    """Fill `out` as `fill_random_bits` does, always with NumPy."""
    # Rows 2 and 0 of the counter are adjacent, and so are the values that a round combines with them: the low halves of
    # the previous products, rows 3 and 1. So every operation of a round but the products is one call for both.
    even, products, odd = work[0:2], work[2:4], work[4:6]
    c2, c0 = even
    c0.fill(1)
    np.cumsum(c0, out=c0)
    np.add(c0, np.uint64((first - 1) % 2**64), c0)
    np.bitwise_and(c0, _MASK, c0)
    c2.fill(step & 0xFFFFFFFF)
    odd[0].fill(step >> 32 & 0xFFFFFFFF)
    odd[1].fill(stream)
    for k0, k1 in _keys(seed):
        np.multiply(c0, _FACTORS[0], products[0])
        np.multiply(c2, _FACTORS[1], products[1])
        np.right_shift(products, _HALF, even)
        np.bitwise_xor(even, odd, even)
        np.bitwise_xor(c0, k0, c0)
        np.bitwise_xor(c2, k1, c2)
        np.bitwise_and(even, _MASK, even)
        products, odd = odd, products
    for place, row in enumerate((c0, odd[1], c2, odd[0])):
        np.copyto(out[place::4], row, "unsafe")  # drops the high half


def permutation(seed: int, epoch: int, rows: int) -> Array:
    """Return the int64 numbers 0 ... rows - 1 in the order of an epoch.

    They are sorted by keys of 64 random bits; equal keys keep the lower number first.
    """
    blocks = -(-rows // 2)
    words = np.empty(4 * blocks, np.uint32)
    work = np.empty((WORK_ROWS, min(BLOCKS_AT_A_TIME, blocks)), np.uint64)
    for first in range(0, blocks, BLOCKS_AT_A_TIME):
        part = words[4 * first : 4 * (first + BLOCKS_AT_A_TIME)]
        fill_random_bits(part, work[:, : part.size // 4], seed=seed, stream=SHUFFLE_STREAM, step=epoch, first=first)
    keys = words[0::2].astype(np.uint64) << _HALF | words[1::2]
    return np.argsort(keys[:rows], kind="stable")


@lru_cache(maxsize=16)  # a run has one seed, and every piece of a tensor makes the call
def _keys(seed: int) -> Sequence[tuple[Array, Array]]:
    """Return the key of every round as arrays of rank 0, which NumPy accepts faster than Python numbers."""
    words = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    rounds = np.array(
        [
            [(word + i * step) & 0xFFFFFFFF for word, step in zip(words, _KEY_STEPS, strict=True)]
            for i in range(_ROUNDS)
        ],
        np.uint64,
    )
    return [(pair[:1].reshape(()), pair[1:].reshape(())) for pair in rounds]

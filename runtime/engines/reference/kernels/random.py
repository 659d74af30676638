"""Random numbers from the random bits of a stream, a piece at a time; docs/format.md defines them.

Normal numbers take seven times as long as PyTorch's: the generator is counter-based, and logarithm and sine are of
float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod, tau

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import DTypeName
from prograd_proto.tensor_types import Shape
from runtime.kernel import Array, kernel
from runtime.philox import BLOCKS_AT_A_TIME, ITERATION_STREAM, WORK_ROWS, fill_random_bits


def drawing_scratch(out: TensorType, words_each: int) -> list[TensorType]:
    """Return scratch for an op that draws for every element of its result."""
    count = prod(out.static_shape) * words_each
    blocks = max(1, min(BLOCKS_AT_A_TIME, -(-count // 4)))
    return [
        TensorType("int64", (WORK_ROWS, blocks)),
        TensorType("int32", (4 * blocks,)),
        TensorType("float64", (4 * blocks // words_each,)),
    ]


def numbers_scratch(out: TensorType) -> list[TensorType]:
    return drawing_scratch(out, words_of_one(out.dtype))


def mask_scratch(out: TensorType) -> list[TensorType]:
    made = drawing_scratch(out, 1)
    return [*made, TensorType("bool", made[1].shape)]


def iteration_step_scratch(step: TensorType) -> list[TensorType]:
    return [TensorType("int64", (WORK_ROWS, 1)), TensorType("int32", (4,))]


@kernel(scratch=iteration_step_scratch)
def iteration_step(step: Array, iteration: Array, *, out: Array, scratch: list[Array]) -> None:
    """Draw 63 bits: the step is the key, the iteration takes the place of the step."""
    work, words = scratch[0].view(np.uint64), scratch[1].view(np.uint32)
    fill_random_bits(words, work, seed=int(step), stream=ITERATION_STREAM, step=int(iteration) % 2**64)
    out[...] = (int(words[1]) >> 1 << 32) + int(words[0])


@kernel(scratch=numbers_scratch)
def uniform(
    seed: Array,
    step: Array,
    *,
    shape: Shape,
    low: float,
    high: float,
    dtype: DTypeName,
    out: Array,
    scratch: list[Array],
    random_stream: int,
) -> None:
    bits = 24 if dtype == "float32" else 53
    for words, values, part, piece in drawn(seed, step, random_stream, out, words_of_one(dtype), scratch):
        whole_numbers(words, bits, values, part)
        np.multiply(values, (high - low) * 2.0**-bits, values)
        np.add(values, low, values)
        np.copyto(piece, values[: piece.size], "same_kind")


@kernel(scratch=numbers_scratch)
def normal(
    seed: Array,
    step: Array,
    *,
    shape: Shape,
    mean: float,
    deviation: float,
    dtype: DTypeName,
    out: Array,
    scratch: list[Array],
    random_stream: int,
) -> None:
    """Draw normal numbers: elements 2 i and 2 i + 1 are the cosine and the sine of one angle, times one radius."""
    bits = 32 if dtype == "float32" else 53
    for words, values, part, piece in drawn(seed, step, random_stream, out, words_of_one(dtype), scratch):
        whole_numbers(words, bits, values, part)
        radius, angle = values[0::2], values[1::2]
        np.add(radius, 1, radius)
        np.multiply(radius, 2.0**-bits, radius)
        np.log(radius, radius)
        np.multiply(radius, -2, radius)
        np.sqrt(radius, radius)
        np.multiply(angle, tau * 2.0**-bits, angle)
        cosine = part[: angle.size]
        np.cos(angle, cosine)
        np.sin(angle, angle)
        np.multiply(angle, radius, angle)
        np.multiply(cosine, radius, radius)
        np.multiply(values, deviation, values)
        np.add(values, mean, values)
        np.copyto(piece, values[: piece.size], "same_kind")


@kernel(scratch=mask_scratch, in_place=[(0, 0)])
def dropout(
    x: Array,
    seed: Array,
    step: Array,
    *,
    rate: float,
    out: Array,
    scratch: list[Array],
    random_stream: int,
) -> None:
    *scratch, kept = scratch
    flat, start = x.reshape(-1), 0
    for words, _, _, piece in drawn(seed, step, random_stream, out, 1, scratch):
        np.greater_equal(words, int(rate * 2.0**32), kept)
        np.multiply(flat[start : start + piece.size], 1 / (1 - rate), piece)
        np.multiply(piece, kept[: piece.size], piece)
        start += piece.size


def words_of_one(dtype: str) -> int:
    """Return the number of 32-bit words that an element of that dtype takes."""
    return 1 if dtype == "float32" else 2


def drawn(
    seed: Array, step: Array, stream: int, out: Array, words_each: int, scratch: list[Array]
) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Yield the random bits of `out` piece by piece: uint32 words, two float64 work vectors, and the piece.

    The words may be more than the piece needs, because they come in blocks of four.
    """
    work, words, values = scratch
    words, flat, each = words.view(np.uint32), out.reshape(-1), len(values)
    part = work.reshape(-1)[:each].view(np.float64)  # free once the words are computed
    for first, start in enumerate(range(0, flat.size, each)):
        fill_random_bits(
            words,
            work.view(np.uint64),
            seed=seed.item(),
            stream=stream,
            step=step.item(),
            first=first * (words.size // 4),
        )
        yield words, values, part, flat[start : start + each]


def whole_numbers(words: Array, bits: int, out: Array, part: Array) -> None:
    """Write integers of 24 or 32 bits from the high bits of a word each, or of 53 bits from two words each."""
    if bits <= 32:
        np.copyto(out, np.right_shift(words, 32 - bits, words))
        return
    high, low = words[0::2], words[1::2]
    np.copyto(out, np.right_shift(high, 5, high))
    np.multiply(out, 2.0**26, out)
    np.copyto(part, np.right_shift(low, 6, low))
    np.add(out, part, out)

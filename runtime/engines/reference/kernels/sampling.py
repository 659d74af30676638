"""Random choices, bounded numbers and orthogonal matrices from the random bits of a stream; see docs/format.md."""

from __future__ import annotations

from math import erfc, prod, sqrt

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import DTypeName
from prograd_proto.tensor_types import Shape
from runtime.engines.reference.kernels.chunks import polynomial
from runtime.engines.reference.kernels.index import count_up
from runtime.engines.reference.kernels.linalg import as_matrix
from runtime.engines.reference.kernels.random import (
    drawing_scratch,
    drawn,
    mask_scratch,
    normal,
    numbers_scratch,
    whole_numbers,
    words_of_one,
)
from runtime.kernel import Array, kernel

# Wichura, "Algorithm AS 241: the percentage points of the normal distribution", 1988; highest powers first.
NEAR = 0.425
NEAR_TOP = (
    2509.0809287301226727,
    33430.575583588128105,
    67265.770927008700853,
    45921.953931549871457,
    13731.693765509461125,
    1971.5909503065514427,
    133.14166789178437745,
    3.3871328727963666080,
)
NEAR_BOTTOM = (
    5226.4952788528545610,
    28729.085735721942674,
    39307.895800092710610,
    21213.794301586595867,
    5394.1960214247511077,
    687.18700749205790830,
    42.313330701600911252,
    1.0,
)
FAR_TOP = (
    7.74545014278341407640e-4,
    2.27238449892691845833e-2,
    2.41780725177450611770e-1,
    1.27045825245236838258,
    3.64784832476320460504,
    5.76949722146069140550,
    4.63033784615654529590,
    1.42343711074968357734,
)
FAR_BOTTOM = (
    1.05075007164441684324e-9,
    5.47593808499534494600e-4,
    1.51986665636164571966e-2,
    1.48103976427480074590e-1,
    6.89767334985100004550e-1,
    1.67638483018380384940,
    2.05319162663775882187,
    1.0,
)

ALPHA = 1.7580993408473766
"""The limit of SELU on the negative side, with the sign changed."""


def words_scratch(out: TensorType) -> list[TensorType]:
    return drawing_scratch(out, 1)


def truncated_normal_scratch(out: TensorType) -> list[TensorType]:
    made = numbers_scratch(out)
    return [*made, *[made[2]] * 3, TensorType("bool", made[2].shape)]


@kernel(scratch=truncated_normal_scratch)
def truncated_normal(
    seed: Array,
    step: Array,
    *,
    shape: Shape,
    mean: float,
    deviation: float,
    low: float,
    high: float,
    dtype: DTypeName,
    out: Array,
    scratch: list[Array],
    random_stream: int,
) -> None:
    bits = 32 if dtype == "float32" else 53
    first, last = (0.5 * erfc(-bound / sqrt(2)) for bound in (low, high))
    *scratch, near, top, bottom, is_near = scratch
    for words, p, q, piece in drawn(seed, step, random_stream, out, words_of_one(dtype), scratch):
        whole_numbers(words, bits, p, q)
        np.add(p, 0.5, p)
        np.multiply(p, (last - first) * 2.0**-bits, p)
        np.add(p, first, p)
        _percentage_points(p, q, near, top, bottom, is_near)
        np.clip(p, low, high, out=p)
        np.multiply(p, deviation, p)
        np.add(p, mean, p)
        np.copyto(piece, p[: piece.size], "same_kind")


@kernel(scratch=mask_scratch)
def bernoulli(
    seed: Array,
    step: Array,
    *,
    shape: Shape,
    probability: float,
    dtype: DTypeName,
    out: Array,
    scratch: list[Array],
    random_stream: int,
) -> None:
    *scratch, is_one = scratch
    for words, _, _, piece in drawn(seed, step, random_stream, out, 1, scratch):
        np.less(words, int(probability * 2.0**32), is_one)
        np.copyto(piece, is_one[: piece.size])


@kernel(scratch=words_scratch)
def randint(
    seed: Array,
    step: Array,
    *,
    shape: Shape,
    low: int,
    high: int,
    dtype: DTypeName,
    out: Array,
    scratch: list[Array],
    random_stream: int,
) -> None:
    count = np.uint64(high - low)
    for words, values, _, piece in drawn(seed, step, random_stream, out, 1, scratch):
        wide = values.view(np.uint64)
        np.copyto(wide, words)
        np.multiply(wide, count, wide)
        np.right_shift(wide, np.uint64(32), wide)
        signed = wide.view(np.int64)
        np.add(signed, low, signed)
        np.copyto(piece, signed[: piece.size], "same_kind")


@kernel(scratch=words_scratch)
def permutation(seed: Array, step: Array, *, count: int, out: Array, scratch: list[Array], random_stream: int) -> None:
    keys, start = out.view(np.uint64), 0
    for words, values, part, piece in drawn(seed, step, random_stream, out, 1, scratch):
        wide, place = values.view(np.uint64), part.view(np.int64)
        np.copyto(wide, words)
        np.left_shift(wide, np.uint64(32), wide)
        count_up(place, 1)
        np.add(place, start, place)
        np.bitwise_or(wide[: piece.size], place[: piece.size].view(np.uint64), piece.view(np.uint64))
        start += piece.size
    keys.sort()
    np.bitwise_and(keys, np.uint64(0xFFFFFFFF), keys)


def categorical_scratch(logits: TensorType) -> list[TensorType]:
    rows, classes = prod(logits.static_shape[:-1]), logits.static_shape[-1]
    made = drawing_scratch(TensorType("float64", (rows,)), 2)
    vectors = [TensorType("float64", (rows,)), TensorType(logits.dtype, (rows,))]
    return [*made, *vectors, *(TensorType(dtype, (rows, classes)) for dtype in ("float64", "bool"))]


@kernel(scratch=categorical_scratch)
def categorical(
    logits: Array, seed: Array, step: Array, *, out: Array, scratch: list[Array], random_stream: int
) -> None:
    """Draw the class as the number of cumulative probabilities that are at most a uniform share of their sum."""
    *scratch, u, largest, sums, is_below = scratch
    x, chosen = as_matrix(logits), out.reshape(-1)
    for words, values, part, piece in drawn(seed, step, random_stream, u, 2, scratch):
        whole_numbers(words, 53, values, part)
        np.multiply(values[: piece.size], 2.0**-53, piece)
    np.maximum.reduce(x, axis=1, out=largest)
    np.subtract(x, largest[:, None], sums)
    np.exp(sums, sums)
    np.add.accumulate(sums, axis=1, out=sums)
    np.multiply(u, sums[:, -1], u)
    np.less_equal(sums, u[:, None], is_below)
    np.add.reduce(is_below, axis=1, dtype=np.int64, out=chosen)
    np.minimum(chosen, x.shape[1] - 1, out=chosen)


def orthogonal_scratch(out: TensorType) -> list[TensorType]:
    rows, columns = prod(out.static_shape[:-1]), out.static_shape[-1]
    matrix = TensorType("float64", (min(rows, columns), max(rows, columns)))
    vectors = [TensorType("float64", (extent,)) for extent in matrix.static_shape]
    return [*drawing_scratch(matrix, 2), matrix, *vectors]


@kernel(scratch=orthogonal_scratch)
def orthogonal(
    seed: Array,
    step: Array,
    *,
    shape: Shape,
    gain: float,
    dtype: DTypeName,
    out: Array,
    scratch: list[Array],
    random_stream: int,
) -> None:
    *drawing, matrix, parts, change = scratch
    normal(
        seed,
        step,
        shape=matrix.shape,
        mean=0.0,
        deviation=1.0,
        dtype="float64",
        out=matrix,
        scratch=drawing,
        random_stream=random_stream,
    )
    for i, row in enumerate(matrix):
        for _ in range(2 if i else 0):  # a second time removes what rounding left of the rows before
            np.dot(matrix[:i], row, out=parts[:i])
            np.dot(parts[:i], matrix[:i], out=change)
            np.subtract(row, change, row)
        np.divide(row, sqrt(np.dot(row, row)), row)
    y = as_matrix(out)
    np.multiply(matrix, gain, matrix)
    np.copyto(y, matrix if y.shape == matrix.shape else matrix.T, "same_kind")


@kernel(scratch=mask_scratch, in_place=[(0, 0)])
def alpha_dropout(
    x: Array,
    seed: Array,
    step: Array,
    *,
    rate: float,
    linear: bool,
    out: Array,
    scratch: list[Array],
    random_stream: int,
) -> None:
    *scratch, is_dropped = scratch
    flat, start = x.reshape(-1), 0
    scale = 1 / sqrt((1 - rate) * (1 + rate * ALPHA**2))
    low, shift = (0.0, 0.0) if linear else (-ALPHA * scale, ALPHA * scale * rate)
    for words, _, _, piece in drawn(seed, step, random_stream, out, 1, scratch):
        np.less(words, int(rate * 2.0**32), is_dropped)
        np.multiply(flat[start : start + piece.size], scale, piece)
        np.copyto(piece, low, where=is_dropped[: piece.size])
        np.add(piece, shift, piece)
        start += piece.size


def _percentage_points(p: Array, q: Array, near: Array, top: Array, bottom: Array, is_near: Array) -> None:
    """Replace probabilities, at least 1e-11 away from 0 and 1, by the quantiles of the normal distribution."""
    np.subtract(p, 0.5, q)
    np.absolute(q, top)
    np.less_equal(top, NEAR, is_near)
    np.multiply(q, q, near)
    np.subtract(NEAR * NEAR, near, near)
    polynomial(NEAR_TOP, near, top)
    polynomial(NEAR_BOTTOM, near, bottom)
    np.divide(top, bottom, near)
    np.multiply(near, q, near)
    np.subtract(1.0, p, top)
    np.minimum(p, top, out=p)
    np.log(p, p)
    np.negative(p, p)
    np.sqrt(p, p)
    np.subtract(p, 1.6, p)
    polynomial(FAR_TOP, p, top)
    polynomial(FAR_BOTTOM, p, bottom)
    np.divide(top, bottom, p)
    np.copysign(p, q, p)
    np.copyto(p, near, where=is_near)

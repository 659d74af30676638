"""Random numbers and dropout: from the random bits of a stream, at the same indices as in the reference engine.

Philox gives blocks of four 32-bit words. If a vector does not begin at a block, the words of two vectors are computed
and shifted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import erfc
from math import sqrt as root
from typing import Any, Final, NamedTuple

from runtime.codegen.ir import FLOAT64, INT32, INT64, UINT64, Value
from runtime.codegen.ir.words import bits, convert, lane, maximum, minimum, shuffle, sqrt, where
from runtime.codegen.kernels.indices import ALL_AXES, Indices
from runtime.codegen.kernels.registers import register_type
from runtime.codegen.math import log, near_zero, normal_quantile, philox
from runtime.codegen.math.rounding import rint
from runtime.codegen.rules.rule import FLOAT_DTYPES, numbers, pointwise
from runtime.philox import ITERATION_STREAM

HALF_PI: Final = 1.5707963267948966
SELU_LIMIT: Final = 1.7580993408473766
"""The limit of SELU for negative numbers, with the sign changed."""


class RandomSource(NamedTuple):
    """The arguments of the generator besides the block: seed, step and stream."""

    seed: Value
    step: Value
    stream: Value

    def words(self, block: Value, count: int) -> Value:
        """Return `count` random words, from the first one of a block on."""
        return philox(self.seed, self.step, self.stream, block, count)


def source(*operands: Value | None, stream: Value, **_: Any) -> Mapping[str, RandomSource]:
    seed, step = numbers(operands, 2)
    return {"source": RandomSource(seed, step, stream)}


def drawn(source: RandomSource, indices: Indices, each: int, make: Callable[[Value], Value]) -> Value:
    """Return `make` of the random bits of the elements at `indices`; `each` is the number of words of an element."""
    grain, lanes = 4 // each, indices.lanes
    width = max(lanes, grain)

    def elements(first: Value) -> Value:
        return make(source.words(first >> grain.bit_length() - 1, width * each))

    def cut(a: Value, b: Value, start: int) -> Value:
        return shuffle(a, b, range(start, start + lanes)) if lanes else lane(a, start)

    if indices.first.known is not None:
        start = int(indices.first.known) % grain
    elif indices.first.multiple % grain == 0:
        start = 0
    else:
        offset = indices.first & (grain - 1)
        a, b = elements(indices.first - offset), elements(indices.first - offset + width)
        y = cut(a, b, 0)
        for start in range(1, grain):
            y = where(offset.equal(start), cut(a, b, start), y)
        return y
    a = elements(indices.first - start)
    if start == 0 and lanes == width:
        return a
    return cut(a, elements(indices.first - start + width) if lanes + start > width else a, start)


def uniform(
    seed: Value, step: Value, *, low: float, high: float, dtype: str, source: RandomSource, indices: Indices, **_: Any
) -> Value:
    def numbers(random_bits: Value) -> Value:
        bits, y = (24, of_24_bits(random_bits)) if dtype == "float32" else (53, of_53_bits(random_bits))
        return convert(y * ((high - low) * 2.0**-bits) + low, register_type(dtype))

    return drawn(source, indices, words_per_element(dtype), numbers)


def normal(
    seed: Value,
    step: Value,
    *,
    mean: float,
    deviation: float,
    dtype: str,
    source: RandomSource,
    indices: Indices,
    **_: Any,
) -> Value:
    """Return normal numbers: elements 2 i and 2 i + 1 are cosine and sine of one angle, times one radius."""

    def numbers(random_bits: Value) -> Value:
        if dtype == "float32":
            digits, pairs = 32, bits(random_bits, UINT64)
            first, second = of_32_bits(pairs & 0xFFFFFFFF), of_32_bits(pairs >> 32)
        else:
            digits, all_of_them = 53, of_53_bits(random_bits)
            count = all_of_them.type.lanes
            first, second = (shuffle(all_of_them, all_of_them, range(part, count, 2)) for part in range(2))
        radius = sqrt(log((first + 1) * 2.0**-digits) * -2)
        cosine, sine = sine_and_cosine(second * 2.0**-digits)
        count = radius.type.lanes
        y = shuffle(cosine * radius, sine * radius, [i + part * count for i in range(count) for part in range(2)])
        return convert(y * deviation + mean, register_type(dtype))

    return drawn(source, indices, words_per_element(dtype), numbers)


def truncated_normal(
    seed: Value,
    step: Value,
    *,
    low: float,
    high: float,
    dtype: str,
    source: RandomSource,
    indices: Indices,
    **more: Any,
) -> Value:
    first, last = (0.5 * erfc(-bound / root(2)) for bound in (low, high))

    def numbers(random_bits: Value) -> Value:
        digits, y = (
            (32, of_32_bits(convert(random_bits, UINT64))) if dtype == "float32" else (53, of_53_bits(random_bits))
        )
        p = (y + 0.5) * ((last - first) * 2.0**-digits) + first
        kept = minimum(maximum(normal_quantile(p), low), high)
        return convert(kept * more["deviation"] + more["mean"], register_type(dtype))

    return drawn(source, indices, words_per_element(dtype), numbers)


def bernoulli(
    seed: Value, step: Value, *, probability: float, dtype: str, source: RandomSource, indices: Indices, **_: Any
) -> Value:
    return convert(are_below(probability, source, indices), register_type(dtype))


def randint(
    seed: Value, step: Value, *, low: int, high: int, dtype: str, source: RandomSource, indices: Indices, **_: Any
) -> Value:
    def numbers(random_bits: Value) -> Value:
        return convert(((convert(random_bits, UINT64) * (high - low)) >> 32) + low % 2**64, register_type(dtype))

    return drawn(source, indices, 1, numbers)


def dropout(
    x: Value, seed: Value, step: Value, *, rate: float, source: RandomSource, indices: Indices, **_: Any
) -> Value:
    y = x * (1 / (1 - rate))
    return where(are_below(rate, source, indices), y * 0.0, y)


def alpha_dropout(
    x: Value, seed: Value, step: Value, *, rate: float, linear: bool, source: RandomSource, indices: Indices, **_: Any
) -> Value:
    scale = 1 / root((1 - rate) * (1 + rate * SELU_LIMIT**2))
    low, shift = (0.0, 0.0) if linear else (-SELU_LIMIT * scale, SELU_LIMIT * scale * rate)
    return where(are_below(rate, source, indices), low, x * scale) + shift


def are_below(share: float, source: RandomSource, indices: Indices) -> Value:
    """Return a mask that is true with the probability `share`: where random bits are below share * 2**32."""
    bound = int(share * 2.0**32)
    return drawn(
        source, indices, 1, lambda random_bits: random_bits < bound if bound < 2**32 else random_bits <= bound - 1
    )


def sine_and_cosine(t: Value) -> tuple[Value, Value]:
    """Return cosine and sine of an angle, in turns from 0 to 1."""
    quarters = rint(t * 4)
    sine, cosine = near_zero((t * 4 - quarters) * HALF_PI)
    odd = quarters.equal(1) | quarters.equal(3)
    a, b = where(odd, sine, cosine), where(odd, cosine, sine)
    return where((quarters > 0) & (quarters < 3), -a, a), where((quarters > 1) & (quarters < 4), -b, b)


def of_32_bits(x: Value) -> Value:
    """Convert integers below 2**32 to float64, exactly: they become the low bits of 2**52, which is then subtracted."""
    return bits(x | 0x4330000000000000, FLOAT64) - 2.0**52


def of_24_bits(random_bits: Value) -> Value:
    """Convert the high 24 bits of words to float64, as signed integers: one instruction on every target."""
    return convert(convert(random_bits >> 8, INT32), FLOAT64)


def of_53_bits(random_bits: Value) -> Value:
    """Return integers of 53 bits as float64: 27 bits of the first word of each pair, 26 of the second."""
    pairs = bits(random_bits, UINT64)
    return of_32_bits((pairs & 0xFFFFFFFF) >> 5) * 2.0**26 + of_32_bits(pairs >> 38)


def words_per_element(dtype: str) -> int:
    """Return the number of random words of an element."""
    return 1 if dtype == "float32" else 2


def random(name: str, expression: Callable[..., Value], dtypes: frozenset[str]) -> None:
    """Declare the lowering rule of an operator whose last two operands are seed and step."""
    pointwise(name, expression, dtypes | {"int64"}, source, {"indices": ALL_AXES}, is_random=True)


def iteration_step(step: Value, iteration: Value) -> Value:
    """Return 63 bits: the step is the key, the iteration takes the place of the step."""
    f = step.function
    words = bits(philox(step, iteration, f.index(ITERATION_STREAM), f.index(0), 4), UINT64)
    return convert((lane(words, 0) & 0xFFFFFFFF) | ((lane(words, 0) >> 33) << 32), INT64)


pointwise("iteration_step", iteration_step, frozenset({"int64"}))
random("uniform", uniform, frozenset())
random("normal", normal, frozenset())
random("truncated_normal", truncated_normal, frozenset())
random("bernoulli", bernoulli, frozenset())
random("randint", randint, frozenset())
random("dropout", dropout, FLOAT_DTYPES)
random("alpha_dropout", alpha_dropout, FLOAT_DTYPES)

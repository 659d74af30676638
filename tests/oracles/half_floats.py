"""16-bit floats by tables of all their numbers: an oracle of rounding that knows nothing of bits."""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from functools import cache

import ml_dtypes
import numpy as np

TYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
GREATEST = {"float16": 65504.0, "bfloat16": 255 * 2.0**120}


@cache
def table(dtype: str) -> tuple[list[float], list[int]]:
    """The finite numbers from 0 up, and what would be the next one, with their bits."""
    bits = [b for b in range(1 << 15) if np.isfinite(number(dtype, b))]
    numbers = [number(dtype, b) for b in bits]
    return [*numbers, 2 * numbers[-1] - numbers[-2]], [*bits, bits[-1] + 1]


def number(dtype: str, bits: int) -> float:
    """Return the value of 16 bits: a sign, 5 or 8 bits of the exponent, and the fraction."""
    fraction, bias = (10, 15) if dtype == "float16" else (7, 127)
    exponent, rest = divmod(bits, 1 << fraction)
    if exponent == 2 * bias + 1:
        return float("nan") if rest else float("inf")
    whole = rest + (1 << fraction if exponent else 0)
    return float(whole * Fraction(2) ** (max(exponent, 1) - bias - fraction))


def rounded(dtype: str, x: float) -> int:
    """The bits of the nearest number, of the even one if two are, infinity from the middle beyond the greatest on."""
    sign = int(np.signbit(x)) << 15
    numbers, bits = table(dtype)
    size = abs(x)
    above = min(bisect_left(numbers, size), len(numbers) - 1)
    if size >= numbers[-1]:
        return sign | bits[-1]
    if above == 0:
        return sign | bits[0]
    to_above, to_below = Fraction(numbers[above]) - Fraction(size), Fraction(size) - Fraction(numbers[above - 1])
    if to_above == to_below:
        return sign | next(b for b in bits[above - 1 : above + 1] if b % 2 == 0)
    return sign | bits[above if to_above < to_below else above - 1]


def hard_numbers(dtype: str, wide: str, count: int = 400) -> np.ndarray:
    """Middles between neighbours, their neighbours in the wider dtype, ends, tiny and huge ones, of both signs."""
    rng = np.random.default_rng(3)
    numbers = table(dtype)[0]
    places = [*range(4), *rng.integers(0, len(numbers) - 1, count), len(numbers) - 2]
    found: list[float] = []
    for i in places:
        middle = np.asarray((numbers[i] + numbers[i + 1]) / 2, wide)
        found += [
            numbers[i],
            middle,
            np.nextafter(middle, middle.dtype.type(0)),
            np.nextafter(middle, middle.dtype.type("inf")),
        ]
    with np.errstate(over="ignore"):
        found += [0.0, np.finfo(wide).max, np.finfo(wide).smallest_subnormal, float("inf")]
    array = np.array(found, wide)
    return np.concatenate([array, -array])

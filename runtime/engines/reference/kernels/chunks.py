"""Elementwise kernels of many steps, a chunk at a time: scratch is small and stays in a near cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import prod

import numpy as np

from prograd_proto import TensorType
from runtime.kernel import Array

CHUNK = 16384
"""Elements of a chunk.

NumPy's cost per call is small beside them, and a few float64 vectors of them fit into a cache.
"""


def in_chunks(count: int, *more: str, dtype: str = "") -> Callable[[TensorType], list[TensorType]]:
    """Return the function to scratch vectors for x: `count` of its dtype or of `dtype`, and one for each of `more`."""
    return lambda x: vectors(x, *[dtype or x.dtype] * count, *more)


def vectors(x: TensorType, *dtypes: str) -> list[TensorType]:
    """Return scratch types of one chunk of x, by dtype."""
    return [TensorType(dtype, (min(CHUNK, prod(x.static_shape)),)) for dtype in dtypes]


def chunks(arrays: Sequence[Array], scratch: Sequence[Array] = ()) -> Iterator[list[Array]]:
    """Yield matching pieces of arrays of one shape, each followed by scratch of its length."""
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, CHUNK):
        parts = [array[start : start + CHUNK] for array in flat]
        yield [*parts, *(vector[: parts[0].size] for vector in scratch)]


def blocks(arrays: Sequence[Array], out: Array, scratch: Sequence[Array] = ()) -> Iterator[list[Array]]:
    """Yield matching pieces of arrays broadcast to the shape of `out`, then of `out`, followed by scratch."""
    if all(array.shape == out.shape for array in arrays):
        yield from chunks([*arrays, out], scratch)
        return
    wide = [*(np.broadcast_to(array, out.shape) for array in arrays), out]
    axis, inner = out.ndim - 1, 1
    while axis and inner * out.shape[axis] <= CHUNK:
        inner *= out.shape[axis]
        axis -= 1
    step = max(1, CHUNK // max(1, inner))
    for place in np.ndindex(out.shape[:axis]):
        for start in range(0, out.shape[axis], step):
            parts = [array[place][start : start + step] for array in wide]
            yield [*parts, *(vector[: parts[-1].size].reshape(parts[-1].shape) for vector in scratch)]


BITS = {"float32": "int32", "float64": "int64"}
"""Dtypes of the scratch of `choose`."""


def choose(mask: Array, a: Array, b: Array, out: Array, bits: Array) -> None:
    """Write elements of a where the mask is True, and of b elsewhere.

    It selects bits, which is five times faster than NumPy's masked copy. `out` may be a, but not b.
    """
    np.copyto(bits, mask.view(np.uint8))
    np.negative(bits, bits)
    chosen = out.view(bits.dtype)
    np.bitwise_xor(a.view(bits.dtype), b.view(bits.dtype), chosen)
    np.bitwise_and(chosen, bits, chosen)
    np.bitwise_xor(chosen, b.view(bits.dtype), chosen)


def polynomial(coefficients: Sequence[float], x: Array, out: Array) -> None:
    """Write the polynomial with these coefficients, the highest power first, by Horner's rule; `out` is not x."""
    first, *between, last = constants(tuple(coefficients), x.dtype.char)
    np.multiply(x, first, out)
    for coefficient in between:
        np.add(out, coefficient, out)
        np.multiply(out, x, out)
    np.add(out, last, out)


def quotient(coefficients: tuple[Sequence[float], Sequence[float]], x: Array, y: Array, part: Array) -> None:
    """Write the quotient of two polynomials into y."""
    over, under = coefficients
    polynomial(over, x, y)
    polynomial(under, x, part)
    np.divide(y, part, y)


@cache
def constants(numbers: tuple[float, ...], code: str) -> list[Array]:
    """Return the numbers as arrays of rank 0, which NumPy accepts faster than Python numbers."""
    return [np.array(number, code) for number in numbers]

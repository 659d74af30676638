"""Kernels of many steps, element by element, a chunk at a time: scratch is small and stays in a near cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS
from runtime.kernel import Array, Types, require, types

CHUNK = 8192
"""Elements; NumPy's cost of a call is small beside them, and a few float64 vectors of them fit beside each other."""


def in_chunks(count: int, *more: str, dtype: str = "") -> Callable[[TensorType], Types]:
    """The rule of a float function of one tensor, with `count` scratch vectors of x's or that dtype, then of `more`."""

    def rule(x: TensorType) -> Types:
        require(x.dtype in FLOATS, f"x is {x.dtype}, which this operator does not take")
        return types(x, scratch=vectors(x, *[dtype or x.dtype] * count, *more))

    return rule


def vectors(x: TensorType, *dtypes: str) -> list[TensorType]:
    """Scratch of one chunk of x, by dtype."""
    return [TensorType(dtype, (min(CHUNK, prod(x.static_shape)),)) for dtype in dtypes]


def chunks(arrays: Sequence[Array], scratch: Sequence[Array] = ()) -> Iterator[list[Array]]:
    """Matching pieces of arrays of one shape, each followed by scratch of its length."""
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, CHUNK):
        parts = [array[start : start + CHUNK] for array in flat]
        yield [*parts, *(vector[: parts[0].size] for vector in scratch)]


def polynomial(coefficients: Sequence[float], x: Array, out: Array) -> None:
    """The polynomial with these coefficients, the highest power first, by Horner's rule; `out` is not x."""
    np.multiply(x, coefficients[0], out)
    for coefficient in coefficients[1:-1]:
        np.add(out, coefficient, out)
        np.multiply(out, x, out)
    np.add(out, coefficients[-1], out)

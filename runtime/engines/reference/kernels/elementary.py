"""Elementary functions beyond those of pointwise; several of float32 use the formulas of single.py.

For float64 PyTorch has functions for whole vector registers, up to ten times as fast as NumPy's, which are those of the
C library.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import runtime.engines.reference.kernels.single as single
from prograd_proto import TensorType
from runtime.engines.reference.kernels.chunks import blocks, chunks, vectors
from runtime.engines.reference.kernels.pointwise import EITHER, ONLY
from runtime.kernel import Array, elementwise, kernel
from runtime.row_rules import pointwise


def rsqrt(x: Array, out: Array) -> None:
    np.sqrt(x, out)
    np.divide(1, out, out)


elementwise("rsqrt", rsqrt, in_place=ONLY)
elementwise("reciprocal", np.reciprocal, in_place=ONLY)

elementwise("log2", np.log2, in_place=ONLY)
elementwise("exp2", np.exp2, in_place=ONLY)

elementwise("asin", np.arcsin, in_place=ONLY)
elementwise("acos", np.arccos, in_place=ONLY)

elementwise("asinh", np.arcsinh, in_place=ONLY)
elementwise("acosh", np.arccosh, in_place=ONLY)


def by_dtype(of_single: Callable[..., None], ufunc: np.ufunc, count: int) -> None:
    """Declare the kernel of the operator named like `of_single`, which takes `count` scratch vectors."""

    def room(x: TensorType) -> list[TensorType]:
        return vectors(x, *["float32"] * count) if x.dtype == "float32" else []

    def function(x: Array, *, out: Array, scratch: list[Array] | tuple[Array, ...] = ()) -> None:
        if not scratch:
            ufunc(x, out)
            return
        for parts in chunks([x, out], scratch):
            of_single(*parts)

    function.__name__ = of_single.__name__
    kernel(scratch=room, in_place=ONLY, rows=pointwise)(function)


by_dtype(single.log1p, np.log1p, 2)
by_dtype(single.expm1, np.expm1, 2)
by_dtype(single.tan, np.tan, 1)
by_dtype(single.atan, np.arctan, 5)
by_dtype(single.sinh, np.sinh, 3)
by_dtype(single.cosh, np.cosh, 2)
by_dtype(single.atanh, np.arctanh, 3)


def atan2_scratch(out: TensorType) -> list[TensorType]:
    return vectors(out, *["float32"] * 5, "bool") if out.dtype == "float32" else []


@kernel(scratch=atan2_scratch, in_place=EITHER, rows=pointwise)
def atan2(a: Array, b: Array, *, out: Array, scratch: list[Array] | tuple[Array, ...] = ()) -> None:
    if not scratch:
        np.arctan2(a, b, out)
        return
    for parts in blocks([a, b], out, scratch):
        single.atan2(*parts)

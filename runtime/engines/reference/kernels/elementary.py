"""Elementary functions beyond those of pointwise; several of float32 use the formulas of single.py.

For float64 PyTorch has functions for whole vector registers, up to ten times as fast as NumPy's, which are those of the
C library.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import runtime.engines.reference.kernels.single as single
from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS
from runtime.engines.reference.kernels.chunks import blocks, chunks, vectors
from runtime.engines.reference.kernels.pointwise import EITHER, ONLY, of_one, of_two
from runtime.kernel import Array, Types, elementwise, kernel, require, types
from runtime.row_rules import pointwise


def rsqrt(x: Array, out: Array) -> None:
    np.sqrt(x, out)
    np.divide(1, out, out)


elementwise("rsqrt", rsqrt, of_one(FLOATS), in_place=ONLY)
elementwise("reciprocal", np.reciprocal, of_one(FLOATS), in_place=ONLY)

elementwise("log2", np.log2, of_one(FLOATS), in_place=ONLY)
elementwise("exp2", np.exp2, of_one(FLOATS), in_place=ONLY)

elementwise("asin", np.arcsin, of_one(FLOATS), in_place=ONLY)
elementwise("acos", np.arccos, of_one(FLOATS), in_place=ONLY)

elementwise("asinh", np.arcsinh, of_one(FLOATS), in_place=ONLY)
elementwise("acosh", np.arccosh, of_one(FLOATS), in_place=ONLY)


def by_dtype(of_single: Callable[..., None], ufunc: np.ufunc, count: int) -> None:
    """Declare the kernel of the operator named like `of_single`, which takes `count` scratch vectors."""

    def rule(x: TensorType) -> Types:
        require(x.dtype in FLOATS, f"x is {x.dtype}, which this operator does not take")
        return types(x, scratch=vectors(x, *["float32"] * count) if x.dtype == "float32" else [])

    def function(x: Array, *, out: Array, scratch: list[Array] | tuple[Array, ...] = ()) -> None:
        if not scratch:
            ufunc(x, out)
            return
        for parts in chunks([x, out], scratch):
            of_single(*parts)

    function.__name__ = of_single.__name__
    kernel(rule, in_place=ONLY, rows=pointwise)(function)


by_dtype(single.log1p, np.log1p, 2)
by_dtype(single.expm1, np.expm1, 2)
by_dtype(single.tan, np.tan, 1)
by_dtype(single.atan, np.arctan, 5)
by_dtype(single.sinh, np.sinh, 3)
by_dtype(single.cosh, np.cosh, 2)
by_dtype(single.atanh, np.arctanh, 3)


def atan2_rule(a: TensorType, b: TensorType) -> Types:
    [y], _ = of_two(FLOATS)(a, b)
    return types(y, scratch=vectors(y, *["float32"] * 5, "bool") if y.dtype == "float32" else [])


@kernel(atan2_rule, in_place=EITHER, rows=pointwise)
def atan2(a: Array, b: Array, *, out: Array, scratch: list[Array] | tuple[Array, ...] = ()) -> None:
    if not scratch:
        np.arctan2(a, b, out)
        return
    for parts in blocks([a, b], out, scratch):
        single.atan2(*parts)

"""Elementary functions beyond those of pointwise.

NumPy computes some of them one number after the other (for float32 log1p, expm1, sinh, cosh, atanh, asinh, atan2 and
tan): there PyTorch is five to twenty times as fast, because it has them for whole vector registers.
"""

from __future__ import annotations

import numpy as np

from prograd_proto.dtypes import FLOATS
from runtime.kernel import Array, elementwise
from runtime.kernels.pointwise import EITHER, ONLY, of_one, of_two


def rsqrt(x: Array, out: Array) -> None:
    np.sqrt(x, out)
    np.divide(1, out, out)


elementwise("rsqrt", rsqrt, of_one(FLOATS), in_place=ONLY)
elementwise("reciprocal", np.reciprocal, of_one(FLOATS), in_place=ONLY)

elementwise("log1p", np.log1p, of_one(FLOATS), in_place=ONLY)
elementwise("expm1", np.expm1, of_one(FLOATS), in_place=ONLY)
elementwise("log2", np.log2, of_one(FLOATS), in_place=ONLY)
elementwise("exp2", np.exp2, of_one(FLOATS), in_place=ONLY)

elementwise("tan", np.tan, of_one(FLOATS), in_place=ONLY)
elementwise("asin", np.arcsin, of_one(FLOATS), in_place=ONLY)
elementwise("acos", np.arccos, of_one(FLOATS), in_place=ONLY)
elementwise("atan", np.arctan, of_one(FLOATS), in_place=ONLY)
elementwise("atan2", np.arctan2, of_two(FLOATS), in_place=EITHER)

elementwise("sinh", np.sinh, of_one(FLOATS), in_place=ONLY)
elementwise("cosh", np.cosh, of_one(FLOATS), in_place=ONLY)
elementwise("asinh", np.arcsinh, of_one(FLOATS), in_place=ONLY)
elementwise("acosh", np.arccosh, of_one(FLOATS), in_place=ONLY)
elementwise("atanh", np.arctanh, of_one(FLOATS), in_place=ONLY)

"""Exclusive or, bits of integers, and the classification of floats."""

from __future__ import annotations

import numpy as np

from runtime.engines.reference.kernels.pointwise import EITHER, ONLY
from runtime.kernel import elementwise

elementwise("logical_xor", np.logical_xor, in_place=EITHER)

elementwise("bitwise_and", np.bitwise_and, in_place=EITHER)
elementwise("bitwise_or", np.bitwise_or, in_place=EITHER)
elementwise("bitwise_xor", np.bitwise_xor, in_place=EITHER)
elementwise("bitwise_not", np.invert, in_place=ONLY)
elementwise("left_shift", np.left_shift, in_place=EITHER)
elementwise("right_shift", np.right_shift, in_place=EITHER)

elementwise("isnan", np.isnan)
elementwise("isinf", np.isinf)
elementwise("isfinite", np.isfinite)

"""Exclusive or, bits of integers, and the classification of floats."""

from __future__ import annotations

import numpy as np

from prograd_proto.dtypes import FLOATS, INTEGERS
from runtime.engines.reference.kernels.pointwise import EITHER, ONLY, of_one, of_two
from runtime.kernel import elementwise

elementwise("logical_xor", np.logical_xor, of_two({"bool"}), in_place=EITHER)

elementwise("bitwise_and", np.bitwise_and, of_two(INTEGERS), in_place=EITHER)
elementwise("bitwise_or", np.bitwise_or, of_two(INTEGERS), in_place=EITHER)
elementwise("bitwise_xor", np.bitwise_xor, of_two(INTEGERS), in_place=EITHER)
elementwise("bitwise_not", np.invert, of_one(INTEGERS), in_place=ONLY)
elementwise("left_shift", np.left_shift, of_two(INTEGERS), in_place=EITHER)
elementwise("right_shift", np.right_shift, of_two(INTEGERS), in_place=EITHER)

elementwise("isnan", np.isnan, of_one(FLOATS, "bool"))
elementwise("isinf", np.isinf, of_one(FLOATS, "bool"))
elementwise("isfinite", np.isfinite, of_one(FLOATS, "bool"))

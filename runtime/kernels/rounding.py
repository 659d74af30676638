"""Rounding, and division with a remainder."""

from __future__ import annotations

import numpy as np

from prograd_proto.dtypes import FLOATS
from runtime.kernel import elementwise
from runtime.kernels.pointwise import EITHER, NUMERIC, ONLY, of_one, of_two

elementwise("floor", np.floor, of_one(FLOATS), in_place=ONLY)
elementwise("ceil", np.ceil, of_one(FLOATS), in_place=ONLY)
elementwise("round", np.rint, of_one(FLOATS), in_place=ONLY)
elementwise("trunc", np.trunc, of_one(FLOATS), in_place=ONLY)

elementwise("floor_div", np.floor_divide, of_two(NUMERIC), in_place=EITHER)
elementwise("remainder", np.remainder, of_two(NUMERIC), in_place=EITHER)
elementwise("fmod", np.fmod, of_two(NUMERIC), in_place=EITHER)

"""Conversion of arrays that enter and leave the runtime.

NumPy has no bfloat16, so Python gets float32 instead, which holds every bfloat16 number.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from prograd_proto import TensorType
from runtime.dtypes import BFLOAT16, Array, array_type, numpy_dtype
from runtime.memory.aligned import aligned_bytes, view
from runtime.one_op import call_of


def conversion(
    array: Array, dtype: str, memory: Callable[[int], Array] = aligned_bytes
) -> tuple[Array, Callable[[], object]]:
    """Return a new array of another dtype, and a call that fills it with the rounding of the operator `cast`.

    `memory` allocates the aligned bytes.
    """
    type = array_type(array)
    made = TensorType(dtype, type.shape)
    out = view(memory(made.nbytes), 0, made)
    if type.dtype == dtype:
        return out, partial(np.copyto, out, array)
    return out, call_of("cast", {"dtype": dtype}, [array], [out], memory=memory)


def converted(array: Array, dtype: str) -> Array:
    """Return a copy of the array in another dtype."""
    if array.dtype != BFLOAT16 and dtype != "bfloat16":
        with np.errstate(all="ignore"):
            return array.astype(dtype, "C")  # rounds as `cast` does
    out, fill = conversion(array, dtype)
    with np.errstate(all="ignore"):
        fill()
    return out


def python_dtype(dtype: str) -> str:
    """Return the dtype in which Python gets the elements of a dtype."""
    return "float32" if dtype == "bfloat16" else dtype


def handed_out(array: Array) -> Array:
    """Return a copy of the array in a dtype that Python can use."""
    return converted(array, "float32") if array.dtype == BFLOAT16 else array.copy()


def converted_input(array: Array, dtype: str) -> Array:
    """Return the array in `dtype`, row-major and in this machine's byte order.

    For bfloat16, accept the bits of another package's bfloat16, and float32 if no number is rounded.
    """
    if array.flags.c_contiguous and array.dtype == numpy_dtype(dtype):
        return array
    if array.dtype.name == "bfloat16":
        array = np.ascontiguousarray(array).reshape(array.shape).view(BFLOAT16)
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)
    if dtype != "bfloat16" or array.dtype != np.float32:
        return array
    rounded = converted(array, dtype)
    return rounded if np.array_equal(converted(rounded, "float32"), array, equal_nan=True) else array

"""Dtypes of arrays in memory: NumPy's dtypes for those of programs, and questions about such arrays."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import ITEM_BYTES

Array = np.ndarray[Any, np.dtype[Any]]

BFLOAT16: Final = np.dtype([("bfloat16", np.uint16)])
"""Dtype of arrays that hold the bits of bfloat16, which NumPy lacks; no other array has it, and no op computes in
it.
"""


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the dtype that arrays of the program dtype `name` have in memory."""
    return BFLOAT16 if name == "bfloat16" else np.dtype(name)


_NAMES: Final[dict[np.dtype[Any], str]] = {numpy_dtype(name): name for name in ITEM_BYTES}
"""Names of dtypes, kept because NumPy derives a name anew on each access."""


def array_type(array: Array) -> TensorType:
    """Return the type of an array; a dtype that programs lack gets NumPy's name."""
    return TensorType(_NAMES.get(array.dtype) or array.dtype.name, array.shape)


def as_little(array: Array) -> Array:
    """Return the array in little-endian order and row-major, without a copy if it is so already."""
    return array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)


def count_nonfinite(array: Array) -> int:
    """Return the number of elements of a float array that are NaN or infinite."""
    if array.dtype == BFLOAT16:
        exponents = array.view(np.uint16) & 0x7F80
        return int(np.count_nonzero(exponents == 0x7F80))
    return array.size - int(np.count_nonzero(np.isfinite(array)))


def is_float(array: Array) -> bool:
    """Return True if the array may hold NaN."""
    return array.dtype.kind == "f" or array.dtype == BFLOAT16


_PIECE: Final = 1 << 16
"""Elements that are looked at together."""


def extreme(array: Array) -> float:
    """Return NaN if a float array has NaN, else Inf if it has an infinity, else 0; allocate nothing of its size."""
    if not array.size:
        return 0.0
    if array.dtype == BFLOAT16:
        bits = array.reshape(-1).view(np.uint16)
        largest = max(int((bits[at : at + _PIECE] & 0x7FFF).max()) for at in range(0, len(bits), _PIECE))
        return math.nan if largest > 0x7F80 else math.inf if largest == 0x7F80 else 0.0
    if _is_finite(array):
        return 0.0
    with np.errstate(all="ignore"):
        ends = float(array.min()), float(array.max())  # either is NaN if there is one
    return math.nan if any(map(math.isnan, ends)) else math.inf if any(map(math.isinf, ends)) else 0.0


def _is_finite(array: Array) -> bool:
    """Return True if an array is contiguous and all its elements are finite."""
    if not array.flags.c_contiguous:
        return False
    flat = array.reshape(-1)
    return all(np.isfinite(flat[at : at + _PIECE]).all() for at in range(0, flat.size, _PIECE))

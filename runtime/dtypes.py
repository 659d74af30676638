"""Arrays in memory: NumPy's dtypes for those of programs, and questions about arrays of either."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import ITEM_BYTES

Array = np.ndarray[Any, np.dtype[Any]]

BFLOAT16: Final = np.dtype([("bfloat16", np.uint16)])
"""NumPy has no bfloat16; arrays hold its bits, in a dtype that nothing else has and nothing computes with."""


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The dtype of arrays in memory."""
    return BFLOAT16 if name == "bfloat16" else np.dtype(name)


_NAMES: Final[dict[np.dtype[Any], str]] = {numpy_dtype(name): name for name in ITEM_BYTES}
"""NumPy works a name out anew each time."""


def array_type(array: Array) -> TensorType:
    """The type of an array, with NumPy's name for a dtype that programs do not have."""
    return TensorType(_NAMES.get(array.dtype) or array.dtype.name, array.shape)


def as_little(array: Array) -> Array:
    """The array in little-endian order, row-major; itself if it is."""
    return array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)


def count_nonfinite(array: Array) -> int:
    """How many elements of a float array are NaN or infinite."""
    if array.dtype == BFLOAT16:
        exponents = array.view(np.uint16) & 0x7F80
        return int(np.count_nonzero(exponents == 0x7F80))
    return array.size - int(np.count_nonzero(np.isfinite(array)))


def is_float(array: Array) -> bool:
    """Whether it has elements that may be NaN."""
    return array.dtype.kind == "f" or array.dtype == BFLOAT16

"""Limits BLAS to one thread: OpenBLAS changes bits with its thread count; parallelism comes from scheduling ops.

The commands set OPENBLAS_NUM_THREADS before NumPy is imported. In a process that imported NumPy before, this module
calls the library that NumPy loaded.
"""

from __future__ import annotations

import ctypes
import logging
import os
from pathlib import Path

_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
SMALLEST_PACKED = 256
"""Number of rows and columns of a product from which OpenBLAS copies its operands into its buffer."""

_SETTERS = (
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
)


def ask_for_one_thread() -> None:
    """Limit a BLAS that is not loaded yet to one thread, through the environment of this process."""
    for name in _VARIABLES:
        os.environ[name] = "1"


def use_one_thread() -> None:
    """Limit NumPy's loaded BLAS to one thread.

    Log a warning if the library cannot be reached and the environment did not limit it before.
    """
    if all(os.environ.get(name) == "1" for name in _VARIABLES):
        return
    for path in _libraries():
        library = ctypes.CDLL(str(path))
        for setter in _SETTERS:
            if hasattr(library, setter):
                getattr(library, setter)(1)
                return
    logging.getLogger("prograd").warning(
        "the BLAS of this NumPy cannot be put on one thread; set %s=1 before Python starts, or bits may differ",
        _VARIABLES[0],
    )


def take_buffer() -> None:
    """Let OpenBLAS allocate its buffer now: it ends the process where it finds no memory for the buffer later."""
    import numpy as np

    matrix = np.zeros((SMALLEST_PACKED, SMALLEST_PACKED), np.float32)
    np.matmul(matrix, matrix)


def blas_core() -> str:
    """Return the CPU that the loaded OpenBLAS computes for, such as "Haswell", or "unknown" if it does not say."""
    for path in _libraries():
        library = ctypes.CDLL(str(path))
        for name in ("scipy_openblas_get_corename64_", "scipy_openblas_get_corename", "openblas_get_corename"):
            if hasattr(library, name):
                function = getattr(library, name)
                function.restype = ctypes.c_char_p
                return bytes(function()).decode("ascii", "replace")
    return "unknown"


def _libraries() -> list[Path]:
    import numpy as np

    folder = Path(np.__file__).parent
    return [path for place in (folder.parent / "numpy.libs", folder / ".dylibs") for path in place.glob("*openblas*")]

"""NumPy's files as arrays by name."""

from __future__ import annotations

from pathlib import Path

from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.files.tensor_files import read_npy, read_npz, unverified


def read_arrays_of(path: Path) -> dict[str, Array]:
    """Return the arrays of a .npz file by name, or that of a .npy file as `x`.

    Raises DataError if it cannot be read.
    """
    try:
        if path.suffix.lower() == ".npy":
            return {"x": read_npy(path)}
        with unverified(path) as reader:
            return read_npz(path, reader)
    except DataError as error:
        if "Object arrays" in str(error):
            raise DataError(f"{path}: there are objects of Python in it; save arrays of numbers or of texts") from None
        raise

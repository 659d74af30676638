"""A memory-mapped file for the values that a plan moves out of memory and back.

The file has no name in its folder, so nothing of it remains however the process ends. The system keeps its bytes in its
file cache while there is memory, and on the disk otherwise. The pages that a transfer has copied are given back to the
system, so the file adds next to nothing to the memory of the process.
"""

from __future__ import annotations

import mmap
import os
from errno import EDQUOT, EFBIG, EINVAL, ENOMEM, ENOSPC, EOPNOTSUPP
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final, cast

import numpy as np

from runtime.dtypes import Array
from runtime.errors import ExecutionError, ResourceLimit, UsageError

_NO_ROOM: Final = (ENOSPC, EDQUOT, EFBIG, ENOMEM)
_NOT_HERE: Final = (EOPNOTSUPP, EINVAL)
_ADVICE: Final = hasattr(mmap.mmap, "madvise") and hasattr(mmap, "MADV_WILLNEED")  # Windows has neither


def spill_file(folder: Path, nbytes: int) -> Array:
    """Return the bytes of a new file in a folder, at least one; the file goes when the array does.

    Raises UsageError if no file can be made in the folder, ResourceLimit if the disk has no room for `nbytes` bytes.
    """
    try:
        with TemporaryFile(dir=folder) as file:
            _reserve(file, nbytes)
            mapping = mmap.mmap(file.fileno(), nbytes)
    except OSError as error:
        raise _refused(folder, nbytes, error) from None
    return np.ndarray(nbytes, np.uint8, buffer=mapping)


def expect(array: Array) -> None:
    """Let the system read the pages of an array ahead, if the array lies in a file."""
    if _ADVICE:
        _advise(array, mmap.MADV_WILLNEED)


def give_back(array: Array) -> None:
    """Release the pages of an array from the memory of this process, if the array lies in a file."""
    if _ADVICE:
        _advise(array, mmap.MADV_DONTNEED)


def _reserve(file: IO[bytes], nbytes: int) -> None:
    """Reserve the disk space: a disk that is full later would end the process in the middle of a step."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file.fileno(), 0, nbytes)
            return
        except OSError as error:
            if error.errno not in _NOT_HERE:
                raise
    zeros = bytes(1 << 20)
    for start in range(0, nbytes, len(zeros)):
        file.write(zeros[: nbytes - start])
    file.flush()


def _refused(folder: Path, nbytes: int, error: OSError) -> ExecutionError:
    why = error.strerror or error
    if error.errno in _NO_ROOM:
        return ResourceLimit(f"{folder}: there is no room for the {nbytes} bytes that the plan moves to a file: {why}")
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return UsageError(f"{folder}: there is no such folder")
    return UsageError(f"{folder}: no file can be made there: {why}")


def _advise(array: Array, advice: int) -> None:
    """Give the system an advice about the whole pages of an array; pages shared with other arrays stay as they are."""
    whole = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    mapping = cast(object, whole.base)  # NumPy's types know only arrays as memory
    if not isinstance(mapping, mmap.mmap):
        return
    start = array.ctypes.data - whole.ctypes.data
    stop = (start + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    start = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    if start < stop:
        mapping.madvise(advice, start, stop - start)

"""The data file of a program, or several as one: their arrays in memory, or columns that stay in the files.

1. Arrays that are small together are read into memory while the file is verified.
2. Large arrays, or those that do not fit into the permitted memory, stay in their files. The file is verified once,
   and rows are read when a step takes them.
3. The rows of several files follow one another, in the order of the files' names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from prograd_proto import TensorType
from prograd_proto.regular_files import open_regular
from runtime.dtypes import Array, array_type
from runtime.errors import DataError
from runtime.files.file_reader import FileReader
from runtime.files.held_file import CAN_HOLD, HeldFile, OpenFiles
from runtime.files.safetensors_file import Extent, dtype_of, read_header
from runtime.files.tensor_files import read_arrays, require_keys, types_of, unreadable
from runtime.memory.limit import MemoryLimit
from runtime.rows.stored_column import FileColumn, Part, StoredColumn

IN_MEMORY: Final = 256 << 20
"""Upper bound in bytes on columns that are read into memory; larger ones stay in their files."""

Verified = Callable[[Path], AbstractContextManager[FileReader]]
"""Function that opens a file; its content is verified when the context ends without an error."""


class Columns(NamedTuple):
    """Columns by key, and for each file the number of rows of each column."""

    by_key: dict[str, FileColumn]
    lengths: list[dict[str, int]]


def read_columns(
    files: Sequence[Path], verified: Verified, keys: Collection[str], also: Collection[str], memory: MemoryLimit
) -> Columns:
    """Return the columns of these keys, and of those of `also` that exist.

    Raises DataError if a file cannot be read, lacks a key, or has other types of rows than the earlier files. Raises
    ResourceLimit if it is read into memory, and does not fit.
    """
    if CAN_HOLD and all(file.suffix != ".npz" for file in files) and _is_large(files, {*keys, *also}, memory):
        return _stored(files, verified, keys, also)
    found: list[dict[str, Array]] = []
    for file in files:
        with verified(file) as reader:
            found.append(read_arrays(file, reader, keys, also))
        _require_alike(files[0], types_of(found[0]), file, types_of(found[-1]))
    lengths = [{key: len(array) if array.ndim else 0 for key, array in arrays.items()} for arrays in found]
    if len(found) == 1:
        return Columns(dict(found[0]), lengths)
    return Columns({key: _joined(key, [arrays[key] for arrays in found], memory) for key in found[0]}, lengths)


def _joined(key: str, arrays: Sequence[Array], memory: MemoryLimit) -> Array:
    memory.take(sum(array.nbytes for array in arrays), f"the rows of {key!r}")
    joined = np.concatenate(arrays)
    memory.note(joined)
    return joined


def _is_large(files: Sequence[Path], keys: Collection[str], memory: MemoryLimit) -> bool:
    """Return True if the arrays are too large for memory; errors of unreadable files are left to the reader."""
    room = IN_MEMORY if memory.room is None else min(IN_MEMORY, memory.room // 2)
    try:
        if sum(file.stat().st_size for file in files) <= room:
            return False
        total = 0
        for file in files:
            with open_regular(file) as stream:
                extents = read_header(FileReader(stream)).extents
            total += sum(extent.end - extent.start for key, extent in extents.items() if key in keys)
    except (OSError, ValueError):
        return False
    return total > room


def _stored(files: Sequence[Path], verified: Verified, keys: Collection[str], also: Collection[str]) -> Columns:
    open_files = OpenFiles()
    parts: dict[str, list[Part]] = {}
    first: dict[str, Extent] = {}
    lengths: list[dict[str, int]] = []
    for file in files:
        with verified(file) as reader:
            status = reader.status
            try:
                header = read_header(reader)
            except (OSError, ValueError) as error:
                raise unreadable(file, "safetensors", error) from None
            require_keys(file, keys, header.extents)
        extents = {key: extent for key, extent in header.extents.items() if key in {*keys, *also}}
        first = first or extents
        _require_alike(files[0], _stored_types(files[0], first), file, _stored_types(file, extents))
        held = HeldFile(file, status, open_files)
        lengths.append({key: extent.shape[0] if extent.shape else 0 for key, extent in extents.items()})
        for key in first:
            parts.setdefault(key, []).append(Part(held, header.nbytes + extents[key].start, lengths[-1][key]))
    columns = {key: StoredColumn(key, parts[key], dtype_of(first[key].word), first[key].shape[1:]) for key in first}
    return Columns(dict(columns), lengths)


def _stored_types(file: Path, extents: Mapping[str, Extent]) -> dict[str, TensorType]:
    try:
        dtypes = {key: np.empty(0, dtype_of(extent.word)) for key, extent in extents.items()}
    except KeyError as error:
        raise DataError(f"{file}: there are elements of {error}, which prograd does not read") from None
    return {key: TensorType(array_type(array).dtype, extents[key].shape) for key, array in dtypes.items()}


def _require_alike(first: Path, wanted: Mapping[str, TensorType], file: Path, found: Mapping[str, TensorType]) -> None:
    for key, type in wanted.items():
        if key not in found:
            raise DataError(f"{file}: there is no key {key!r}, which {first} has")
        other = found[key]
        if (type.dtype, type.shape[1:], type.rank) != (other.dtype, other.shape[1:], other.rank):
            raise DataError(f"{file}: {key!r} is {other}, and {type} in {first}")

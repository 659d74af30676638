"""Writing of arrays to a file of rows, in any memory order and any dtype that programs can hold."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

import numpy as np

from prograd_proto.argument_kinds import with_kinds
from prograd_proto.ragged_names import OFFSETS, PADDING
from runtime.dtypes import Array, array_type
from runtime.errors import DataError, UsageError
from runtime.files.safetensors_file import WORDS
from runtime.files.tensor_files import has_safetensors, write_safetensors
from runtime.memory.shortage import limited_by_memory
from runtime.rows.casts import require_unmasked
from runtime.rows.ragged import RaggedColumn

HEADER: Final = "__metadata__"

_WIDER: Final = {"int8": "int32", "int16": "int32", "uint16": "int32", "uint32": "int64"}
"""Dtypes that hold all numbers of a dtype that programs do not have."""


@with_kinds(UsageError)
@limited_by_memory
def write(
    path: str | os.PathLike[str],
    arrays: Mapping[str, object],
    *,
    splits: Mapping[str, object] | None = None,
    metadata: Mapping[str, str] | None = None,
    force: bool = False,
) -> None:
    """Write a file of rows that `program.data` reads; an identical file is left as it is.

    Args:
        path: path of the file, as in "rows.safetensors".
        arrays: arrays by name; axis 0 counts the rows. Any input of NumPy: arrays in any memory order, lists, or
            columns of pandas. Ragged rows are two arrays: the concatenated elements, as `text`, and the start of each
            row and the end of the last, as `text.offsets`.
        splits: row numbers by the name of a split.
        metadata: texts for the header.
        force: replace an existing file.

    Raises DataError for arrays of unequal lengths, of dtypes that programs do not have, or an invalid row number;
    UsageError if another file is at the path.
    """
    if not os.fspath(path).endswith(".safetensors"):
        raise UsageError(f"{os.fspath(path)}: the name of a file of rows ends in .safetensors")
    if not hasattr(arrays, "items"):
        raise UsageError(f"{type(arrays).__name__} has no arrays by name; give a mapping, or a frame of pandas")
    rows = {str(name): as_rows(str(name), values) for name, values in arrays.items()}
    if HEADER in rows:
        raise DataError(f"{HEADER!r} is what a safetensors file calls its header, and no array can have that name")
    lengths = _counts(rows)
    if not lengths:
        raise DataError("there are no arrays to write")
    first, count = next(iter(lengths.items()))
    for name, length in lengths.items():
        if length != count:
            raise DataError(f"the arrays differ in their number of rows: {first!r} has {count}, {name!r} {length}")
    numbers = {name: _numbers(name, rows, values, count) for name, values in (splits or {}).items()}
    arrays, texts = rows | numbers, dict(metadata or {})
    if force or not has_safetensors(path, arrays, texts):
        write_safetensors(path, arrays, texts, force=force)


def as_rows(name: str, values: object) -> Array:
    """Return a contiguous array of a dtype that programs have."""
    require_unmasked(name, values)
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DataError(f"{name!r} cannot be made an array: {error}") from None
    dtype = array_type(array).dtype
    dtype = _WIDER.get(dtype, dtype)
    if dtype == "uint64" and array.max(initial=0) < 1 << 63:
        dtype = "int64"
    if dtype == "bfloat16" or dtype not in WORDS:
        what = "texts or objects" if array.dtype.kind in "OUS" else f"of {array.dtype}"
        there = ", ".join(word for word in WORDS if word != "bfloat16")
        more = "; prograd.data.pack makes numbers of texts" if array.dtype.kind in "OUS" else ""
        raise DataError(f"{name!r} is an array of {what.removeprefix('of ')}; programs have {there}{more}")
    if not array.ndim:
        raise DataError(f"{name!r} is one number, and axis 0 counts the rows")
    return np.ascontiguousarray(array, np.dtype(dtype))


def _counts(rows: Mapping[str, Array]) -> dict[str, int]:
    """Return the number of rows of each array; ragged rows have one row less than offsets."""
    ragged = {
        name: RaggedColumn(name, rows[name], rows[name + OFFSETS], rows.get(name + PADDING))
        for name in rows
        if name + OFFSETS in rows
    }
    belonging = {name + ending for name in ragged for ending in (OFFSETS, PADDING)}
    return {name: len(ragged.get(name, array)) for name, array in rows.items() if name not in belonging}


def _numbers(name: str, rows: Mapping[str, Array], values: object, count: int) -> Array:
    if name in rows:
        raise DataError(f"{name!r} is the name of a split and of an array")
    numbers = np.asarray(values)
    if numbers.dtype == bool:
        numbers = np.flatnonzero(numbers) if numbers.shape == (count,) else numbers
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise DataError(f"the split {name!r} is no list of row numbers")
    outside = numbers[(numbers < 0) | (numbers >= count)]
    if len(outside):
        raise DataError(f"the split {name!r} has row {outside[0]}, there are {count} rows")
    return numbers.astype(np.int64)

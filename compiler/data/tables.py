"""Tables as columns: CSV by Python's own reader, Parquet by pyarrow, pandas' frames, and NumPy's files as they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from compiler.data.extras import extra
from compiler.errors import DataError
from runtime.dtypes import Array
from runtime.files.tensor_files import read_npy
from runtime.rows.encoding.csv_rows import read_csv as read_csv


def read_parquet(path: Path) -> dict[str, Array]:
    """The columns of a Parquet file. Raises DataError if it cannot be read, UsageError without pyarrow."""
    parquet = extra("pyarrow.parquet", "reading Parquet")
    try:
        table = parquet.read_table(path)
    except OSError as error:
        raise DataError(f"{path}: the rows cannot be read: {error.strerror or error}") from None
    except Exception as error:
        raise DataError(f"{path}: this cannot be read as a Parquet file: {str(error).splitlines()[0]}") from None
    return {str(name): as_column(str(name), table.column(name).to_pylist()) for name in table.column_names}


def frame_columns(frame: Any) -> dict[str, Array]:
    """The columns of a frame of pandas."""
    found: dict[str, Array] = {}
    for name in frame.columns:
        series = frame[name]
        array = np.asarray(series.to_numpy())
        plain = array.ndim == 1 and array.dtype.kind in "iuf"
        values = series.astype(object).where(~series.isna(), None)
        found[str(name)] = array if plain else as_column(str(name), values.tolist())
    return found


def as_column(name: str, values: list[Any]) -> Array:
    """Values of any kind as an array of numbers in which NaN is missing, or of texts in which "" is."""
    there = [value for value in values if value is not None]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in there):
        if len(there) == len(values) and all(isinstance(value, int) for value in there):
            return np.array(values, np.int64)
        return np.array([np.nan if value is None else value for value in values], np.float64)
    if any(isinstance(value, list | dict | bytes) for value in there):
        raise DataError(f"{name!r} has values that are lists or bytes; leave the column out by --drop {name}")
    texts = np.empty(len(values), object)
    texts[:] = ["" if value is None else str(value) for value in values]
    return texts


def read_arrays_of(path: Path) -> dict[str, Array]:
    """The arrays of a .npz file by name, or that of a .npy file as `x`. Raises DataError if it cannot be read."""
    if path.suffix.lower() == ".npy":
        return {"x": read_npy(path)}
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except OSError as error:
        raise DataError(f"{path}: this cannot be read as a npz file: {error.strerror or error}") from None
    except Exception as error:
        raise DataError(f"{path}: this cannot be read as a npz file: {error}") from None


def as_columns(source: Mapping[str, object]) -> dict[str, Array]:
    """Lists and arrays of a mapping as columns: those of one axis as those of a table."""
    found: dict[str, Array] = {}
    for name, values in source.items():
        array = np.asarray(values)
        found[name] = array if array.dtype.kind in "iufb" or array.ndim != 1 else as_column(name, array.tolist())
    return found

"""Tables as columns: CSV by Python's own reader, Parquet by pyarrow, pandas' frames, and NumPy's files as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

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
    """The columns of a frame of pandas; its index is none of them."""
    found: dict[str, Array] = {}
    for at, name in enumerate(frame.columns):
        if str(name) in found:
            raise DataError(f"the frame has two columns {str(name)!r}")
        series = frame.iloc[:, at]
        array = np.asarray(series.to_numpy())
        plain = array.ndim == 1 and array.dtype.kind in "iuf"
        values = series.astype(object).where(~series.isna(), None)
        found[str(name)] = array if plain else as_column(str(name), values.tolist())
    return found


def as_column(name: str, values: list[Any]) -> Array:
    """Values of any kind as an array of numbers in which NaN is missing, of texts in which "" is, or of lists."""
    values = [_plain(value) for value in values]
    there = [value for value in values if value is not None]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in there):
        return _numbers(values, there)
    for row, value in enumerate(values):
        if not _is_row(value):
            what = "a list of lists" if isinstance(value, list) else f"of type {type(value).__name__}"
            raise DataError(
                f"row {row} of {name!r} is {what}, which no row can be; leave the column out by --drop {name}"
            )
    found = np.empty(len(values), object)
    found[:] = [value if isinstance(value, list) else "" if value is None else str(value) for value in values]
    return found


def _numbers(values: list[Any], there: list[Any]) -> Array:
    whole = len(there) == len(values) and all(isinstance(value, int) for value in there)
    if whole and all(-(1 << 63) <= value < 1 << 63 for value in there):
        return np.array(values, np.int64)
    if all(abs(value) < 1e300 or value != value or abs(value) == np.inf for value in there):
        return np.array([np.nan if value is None else value for value in values], np.float64)
    found = np.empty(len(values), object)  # larger than any number that is kept: who encodes it names the row
    found[:] = ["" if value is None else str(value) for value in values]
    return found


def _plain(value: Any) -> Any:
    """A value of Python for those of NumPy and pyarrow, and lists for what is like one."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]: of any dtype
    return [_plain(element) for element in value] if isinstance(value, tuple | list) else value  # pyright: ignore[reportUnknownVariableType]: likewise


def _is_row(value: Any) -> bool:
    elements = cast(list[Any], value if isinstance(value, list) else [value])
    return not any(isinstance(element, list | dict | bytes) for element in elements)


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
        array = _array(values)
        plain = array is not None and (array.dtype.kind in "iufb" or array.ndim != 1)
        found[name] = array if array is not None and plain else as_column(name, list(cast(Iterable[Any], values)))
    return found


def _array(values: object) -> Array | None:
    """None for rows of unequal length."""
    try:
        return np.asarray(values)
    except ValueError:
        return None

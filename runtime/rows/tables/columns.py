"""Values of Python as columns: frames of pandas, mappings of lists and arrays, and lists of values."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence, Set
from typing import Any, cast

import numpy as np

from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.rows.casts import require_unmasked
from runtime.rows.encoding.values import mapped, spelled, texts_of


def column_name(name: object) -> str:
    """Return the name of a column without blanks around it, which headers of CSV files have and other readers keep."""
    return str(name).strip()


def require_new(what: str, name: str, found: Container[str]) -> None:
    """Raise DataError for a second column of a name."""
    if name in found:
        raise DataError(f"{what} has two columns {name!r}")


def frame_columns(frame: Any) -> dict[str, Array]:
    """Return the columns of a frame of pandas, without its index."""
    found: dict[str, Array] = {}
    for at, name in enumerate(map(column_name, frame.columns)):
        require_new("the frame", name, found)
        found[name] = _series(frame.iloc[:, at])
    return found


def _series(series: Any) -> Array:
    """Return a column of pandas; NumPy's dtypes of numbers stay, and all others become values of Python."""
    dtype: Any = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "iuf":
        return np.asarray(series.to_numpy())
    return as_column(series.astype(object).where(~series.isna(), None).tolist())


def levels_of(frame: Any) -> dict[str, tuple[str, ...]]:
    """Return all categories, in their order, of each column with ordered categories."""
    found: dict[str, tuple[str, ...]] = {}
    for name, dtype in frame.dtypes.items():
        if hasattr(dtype, "categories") and getattr(dtype, "ordered", False):
            values = as_column(list(dtype.categories))
            found[column_name(name)] = tuple(texts_of(values).tolist())
    return found


def as_column(values: list[Any]) -> Array:
    """Return values as an array of numbers with NaN for missing, of texts with "" for missing, or of lists.

    Booleans and dates are texts, as `spelled` gives them. Values that no row can have are kept, for the caller to
    refuse.
    """
    plain = _plain_column(values)
    if plain is not None:
        return plain
    values = [_plain(value) for value in values]
    there = [value for value in values if value is not None]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in there):
        return _numbers(values, there)
    return _objects(values)


def _plain_column(values: list[Any]) -> Array | None:
    """Return texts, or numbers that one dtype holds, as a column; None for other values, which take longer."""
    kinds = set(map(type, values))
    if str in kinds and kinds <= {str, type(None)}:
        return mapped(values, spelled)
    if not kinds or not kinds <= {int, float}:
        return None
    if float not in kinds:
        return np.array(values, np.int64) if min(values) >= -(1 << 63) and max(values) < 1 << 63 else None
    if int in kinds and any(type(value) is int and abs(value) > 1 << 53 for value in values):
        return None
    return np.array(values, np.float64)


def joined_columns(arrays: Sequence[Array]) -> Array:
    """Return columns behind one another, as one of numbers where all are, and no integer is rounded by that."""
    kinds = {array.dtype.kind for array in arrays}
    if len(kinds) == 1 or (kinds <= set("iuf") and all(_is_exact(array) for array in arrays)):
        return np.concatenate(arrays)
    return np.concatenate([array if array.dtype.kind == "O" else texts_of(array) for array in arrays])


def _is_exact(array: Array) -> bool:
    """Return True if float64 holds all numbers."""
    exact = 1 << 53
    return array.dtype.kind == "f" or not array.size or (array.max() <= exact and int(array.min()) >= -exact)


def _numbers(values: list[Any], there: list[Any]) -> Array:
    whole = len(there) == len(values) and all(isinstance(value, int) for value in there)
    if whole and all(-(1 << 63) <= value < 1 << 63 for value in there):
        return np.array(values, np.int64)
    if not any(isinstance(value, int) and not -(1 << 53) <= value <= 1 << 53 for value in there):
        return np.array([np.nan if value is None else value for value in values], np.float64)
    return _objects(values)  # float64 does not hold all integers; the encoder names the row


def _objects(values: list[Any]) -> Array:
    found = np.empty(len(values), object)
    found[:] = [spelled(value) for value in values]
    return found


def _plain(value: Any) -> Any:
    """Return a Python value for one of NumPy, pandas or pyarrow, and a list for a sequence."""
    if isinstance(value, np.ndarray | np.generic):
        value = _listed(cast(Array, value))
    if type(value).__name__ == "NAType":
        return None
    return [_plain(element) for element in value] if isinstance(value, tuple | list) else value  # pyright: ignore[reportUnknownVariableType]: likewise


def _listed(array: Array) -> Any:
    """Return the values of an array or a scalar of NumPy as Python has them; None where they are masked."""
    if array.dtype.kind in "mM":
        array = array.astype(f"{array.dtype.kind}8[us]")  # Python gives counts for other units
    return array.tolist()


def as_columns(source: Mapping[Any, object]) -> dict[str, Array]:
    """Return lists and arrays of a mapping as columns; those of one axis as columns of a table."""
    found: dict[str, Array] = {}
    for key, values in source.items():
        name = column_name(key)
        if not _is_column(values):
            raise DataError(f"{name!r} is of type {type(values).__name__}; a column is a list or an array")
        require_new("the mapping", name, found)
        found[name] = _given(values)
        require_unmasked(name, found[name])
    return found


def _given(values: Any) -> Array:
    if hasattr(values, "iloc"):
        return _series(values)
    if isinstance(values, np.ndarray):
        array = cast(Array, values)
        if array.ndim == 1 and (array.dtype.kind not in "iuf" or hasattr(array, "mask")):
            return as_column(_listed(array))
        return array
    for method in ("to_pylist", "to_list"):  # of Arrow and polars
        if hasattr(values, method):
            return as_column(getattr(values, method)())
    array = _array(values)
    return as_column(list(cast(Iterable[Any], values))) if array is None or array.ndim == 1 else array


def _is_column(values: object) -> bool:
    if isinstance(values, str | bytes | Mapping | Set):
        return False
    return hasattr(values, "__len__") and not hasattr(values, "columns") and getattr(values, "ndim", 1) != 0


def _array(values: object) -> Array | None:
    """Return an array, or None for rows of unequal length."""
    try:
        return np.asarray(values)
    except ValueError:
        return None

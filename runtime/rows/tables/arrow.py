"""Tables in Arrow's memory format as columns: Parquet files, and frames of any package that exports them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from prograd_proto.regular_files import open_regular
from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.rows.tables.columns import as_column, column_name, require_new
from runtime.rows.tables.extras import extra
from runtime.rows.tables.piece import PIECE_ROWS


def read_parquet(path: Path) -> dict[str, Array]:
    """Return the columns of a Parquet file. Raise DataError if it cannot be read, UsageError without pyarrow."""
    parquet = extra("pyarrow.parquet", "reading Parquet")
    try:
        with open_regular(path) as file:
            table = parquet.ParquetFile(file).read()
    except OSError as error:
        raise DataError(f"{path}: the rows cannot be read: {error.strerror or error}") from None
    except Exception as error:
        raise DataError(f"{path}: this cannot be read as a Parquet file: {_first_line(error)}") from None
    return _columns(f"{path}", table)


def parquet_pieces(path: Path, stream: Any, wanted: Collection[str] | None) -> Iterator[tuple[dict[str, Array], int]]:
    """Yield the wanted columns, or all, of some rows at a time, and their number; for errors see `read_parquet`."""
    parquet = extra("pyarrow.parquet", "reading Parquet")
    try:
        file = parquet.ParquetFile(stream)
        names = [name for name in file.schema_arrow.names if wanted is None or column_name(name) in wanted]
        for batch in file.iter_batches(batch_size=PIECE_ROWS, columns=names):
            yield _columns(f"{path}", batch), batch.num_rows
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"{path}: this cannot be read as a Parquet file: {_first_line(error)}") from None


def is_arrow(source: object) -> bool:
    """Return True for an object with Arrow's C stream interface or the dataframe interchange protocol."""
    return not isinstance(source, type) and (hasattr(source, "__arrow_c_stream__") or hasattr(source, "__dataframe__"))


def arrow_columns(source: Any) -> tuple[dict[str, Array], dict[str, tuple[str, ...]]]:
    """Return the columns of a frame for which `is_arrow` holds, and the ordered categories of columns that have them.

    Raises DataError if it cannot be read, UsageError without pyarrow.
    """
    kind = type(source).__name__
    try:
        if hasattr(source, "__arrow_c_stream__"):
            table = extra("pyarrow", f"reading a {kind}").table(source)
        else:
            table = extra("pyarrow.interchange", f"reading a {kind}").from_dataframe(source)
    except (ArithmeticError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        raise DataError(f"the {kind} cannot be read: {_first_line(error)}") from None
    return _columns(f"the {kind}", table), _levels(table)


def _levels(table: Any) -> dict[str, tuple[str, ...]]:
    """Return all categories, in their order, of each column with ordered categories."""
    found: dict[str, tuple[str, ...]] = {}
    for number, field in enumerate(table.schema):
        if getattr(field.type, "ordered", False):
            column = table.column(number).unify_dictionaries()
            if column.num_chunks:
                found[column_name(field.name)] = tuple(map(str, column.chunk(0).dictionary.to_pylist()))
    return found


def _columns(what: str, table: Any) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for number, name in enumerate(map(column_name, table.schema.names)):
        require_new(what, name, found)
        column = table.column(number)
        if str(column.type) in ("float", "double"):
            found[name] = np.asarray(column.to_numpy(zero_copy_only=False))  # a float of Python would be wider
        else:
            found[name] = as_column(_values(what, name, column))
    return found


def _values(what: str, name: str, column: Any) -> list[Any]:
    """Return the values of a column. Raise DataError for one that Python lacks, such as a date in year 20000."""
    try:
        return column.to_pylist()
    except (ArithmeticError, NotImplementedError, TypeError, ValueError) as error:
        drop = f"Python cannot hold its values of type {column.type}: {_first_line(error)}"
        raise DataError(f"{what}: the column {name!r} cannot be read: {drop}") from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]

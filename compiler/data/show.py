"""What is in a file of rows: each array with its type, range and first values, and how it was made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from prograd_proto import TensorType
from prograd_proto.printable import WORD, sentence
from runtime.dtypes import Array, array_type
from runtime.errors import DataError
from runtime.files.tensor_files import keys_of, read_metadata, unverified
from runtime.memory_limit import NO_LIMIT
from runtime.rows.data_files import read_columns
from runtime.rows.encoding.column import Column
from runtime.rows.encoding.encoding import KEY, Encoding
from runtime.rows.stored_column import FileColumn as Rows
from runtime.rows.stored_column import StoredColumn, rows_of

_SHOWN = 8
"""Values of a vocabulary, and numbers of a row."""

_BLOCK = 1 << 22
"""Elements that are looked at at once."""


def lines_of(path: Path, rows: int) -> Iterator[str]:
    """Lines for the terminal, with so many rows as examples. Raises DataError if the file cannot be read."""
    keys = keys_of(path)
    columns = read_columns([path], lambda file: unverified(file), keys, (), NO_LIMIT).by_key
    encoding = _encoding(path)
    lengths = [len(column) for column in columns.values() if column.shape]
    count = max(lengths, default=0)
    yield f"{sentence(str(path), WORD)}: {len(columns)} arrays of at most {count} rows"
    width = max([len(sentence(name, WORD)) for name in columns], default=0)
    for name in sorted(columns, key=lambda name: (len(columns[name]) != count if columns[name].shape else True, name)):
        column = columns[name]
        yield f"  {sentence(name, WORD):<{width}}  {_type(column)}  {_range(column)}"
        for line in _made(name, column, encoding, rows):
            yield f"  {'':<{width}}  {line}"


def _encoding(path: Path) -> Encoding:
    if path.suffix == ".npz" or KEY not in read_metadata(path):
        return Encoding({})
    return Encoding.of_file(path)


def _type(column: Rows) -> TensorType:
    return TensorType(array_type(np.empty(0, column.dtype)).dtype, column.shape)


def _range(column: Rows) -> str:
    """`from 0.1 to 7.9`, and how many are NaN."""
    low, high, missing = np.inf, -np.inf, 0
    for block in _blocks(column):
        if block.dtype.names:  # bfloat16
            return ""
        numbers = block[np.isfinite(block)] if block.dtype.kind == "f" else block
        missing += block.size - numbers.size
        if numbers.size:
            low, high = min(low, numbers.min()), max(high, numbers.max())
    more = f", {missing} are NaN or infinite" if missing else ""
    return f"from {low:g} to {high:g}{more}" if low <= high else more.removeprefix(", ")


def _blocks(column: Rows) -> Iterator[Array]:
    if not isinstance(column, StoredColumn):
        yield column
        return
    step = max(1, _BLOCK * column.dtype.itemsize * len(column) // max(1, column.nbytes))
    for start in range(0, len(column), step):
        yield rows_of(column, np.arange(start, min(start + step, len(column))))


def _made(name: str, column: Rows, encoding: Encoding, rows: int) -> Iterator[str]:
    """How the array was made, and its first rows."""
    if name in encoding.joined:
        yield f"columns: {_few(list(encoding.joined[name]))}"
        for member in encoding.joined[name]:
            yield from (f"{member}: {line}" for line in _said(encoding.columns[member]))
    known = encoding.columns.get(name)
    if known is not None:
        yield from _said(known)
    if not rows or not column.shape or not len(column):
        return
    first = rows_of(column, np.arange(min(rows, len(column))))
    if known is not None and known.kind == "class":
        try:
            yield "first rows: " + ", ".join(sentence(str(text), WORD) for text in known.decode(first))
            return
        except DataError:
            pass
    yield "first rows: " + ", ".join(_row(row) for row in first)


def _said(column: Column) -> Iterator[str]:
    if column.values:
        what = "classes" if column.kind == "class" else "words, from number 2 on"
        yield f"{len(column.values)} {what}: {_few(column.values)}"
    if column.mean is not None and column.deviation is not None:
        yield f"standardised: mean {column.mean:g} and deviation {column.deviation:g} of the training rows"
    if column.fill is not None:
        yield f"missing values are {column.fill!r}"
    if column.kind == "text" and not column.values:
        yield "text: each byte and 1, then 0"


def _few(values: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(sentence(value, WORD) for value in values[:_SHOWN])
    return shown + (f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else "")


def _row(row: Array) -> str:
    numbers = np.asarray(row).reshape(-1)[:_SHOWN]
    if numbers.dtype.names:
        return "..."
    shown = " ".join(f"{number:.4g}" if numbers.dtype.kind == "f" else str(number) for number in numbers.tolist())
    return shown if np.ndim(row) == 0 else f"[{shown}{' ...' if np.size(row) > _SHOWN else ''}]"

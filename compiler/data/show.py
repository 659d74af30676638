"""The content of a file of rows: the type, range, first values and encoding of each array."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from compiler.data.show_chats import lines_of_chats
from prograd_proto import TensorType
from prograd_proto.printable import MAX_WORD_CHARACTERS, sentence
from prograd_proto.ragged_names import OFFSETS, PADDING
from runtime.dtypes import Array, array_type
from runtime.errors import DataError, UsageError
from runtime.files.tensor_files import keys_of, read_metadata, unverified
from runtime.memory.limit import NO_LIMIT
from runtime.rows.data_files import Columns, read_columns
from runtime.rows.encoding.column import Column
from runtime.rows.encoding.encoding import KEY, Encoding
from runtime.rows.ragged import RaggedColumn
from runtime.rows.ragged_data import ragged_column
from runtime.rows.stored_column import FileColumn as Rows
from runtime.rows.stored_column import StoredColumn, rows_of

_SHOWN = 8
"""Upper bound on the values shown of a vocabulary, and on the numbers shown of a row."""

_BLOCK = 1 << 22
"""Elements that are processed at once."""


def lines_of(path: Path, rows: int) -> Iterator[str]:
    """Return lines for the terminal, with `rows` rows as examples.

    Raises UsageError for a file of another kind, DataError if it cannot be read.
    """
    if path.suffix not in (".safetensors", ".npz"):
        raise UsageError(f"{path}: files of rows are called *.safetensors or *.npz; compiler data pack makes the first")
    keys = keys_of(path)
    columns = read_columns([path], lambda file: unverified(file), keys, (), NO_LIMIT).by_key
    encoding = _encoding(path)
    ragged = {name: ragged_column(path, name, Columns(columns, [{}])) for name in columns if name + OFFSETS in columns}
    belonging = {name + ending for name in ragged for ending in (OFFSETS, PADDING)}
    columns = {name: column for name, column in columns.items() if name not in belonging}
    lengths = {name: len(ragged.get(name, column)) for name, column in columns.items() if column.shape}
    count = max(lengths.values(), default=0)
    yield f"{sentence(str(path), MAX_WORD_CHARACTERS)}: {len(columns)} arrays of at most {count} rows"
    width = max([len(sentence(name, MAX_WORD_CHARACTERS)) for name in columns], default=0)
    for name in sorted(columns, key=lambda name: (lengths.get(name) != count, name)):
        column, unequal = columns[name], ragged.get(name)
        shape = column.shape if unequal is None else (len(unequal), "length", *column.shape[1:])
        yield f"  {sentence(name, MAX_WORD_CHARACTERS):<{width}}  {_type(column, shape)}  {_range(column)}".rstrip()
        for line in _made(name, column, unequal, encoding, rows):
            yield f"  {'':<{width}}  {line}"
    yield from lines_of_chats(path)


def _encoding(path: Path) -> Encoding:
    if path.suffix == ".npz" or KEY not in read_metadata(path):
        return Encoding({})
    return Encoding.of_file(path)


def _type(column: Rows, shape: tuple[int | str, ...]) -> TensorType:
    return TensorType(array_type(np.empty(0, column.dtype)).dtype, shape)


def _range(column: Rows) -> str:
    """Return the range, `from 0.1 to 7.9`, and the number of NaN."""
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


def _made(name: str, column: Rows, unequal: RaggedColumn | None, encoding: Encoding, rows: int) -> Iterator[str]:
    """Return the encoding of the array, and its first rows."""
    if name in encoding.joined:
        yield f"columns: {_few(list(encoding.joined[name]))}"
        for member in encoding.joined[name]:
            yield from (f"{member}: {line}" for line in _said(encoding.columns[member]))
    known = encoding.columns.get(name)
    if known is not None:
        yield from _said(known)
    if name in encoding.images:
        images = encoding.images[name]
        yield "images" + (f", made {images.height} x {images.width}" if images.resized else "")
    if unequal is not None:
        yield _lengths(unequal.lengths)
        yield "first rows: " + ", ".join(_unequal_row(row, known) for row in _first(column, unequal, rows))
    elif rows and column.shape and len(column):
        yield "first rows: " + _first_rows(column, known, rows)


def _first_rows(column: Rows, known: Column | None, rows: int) -> str:
    first = rows_of(column, np.arange(min(rows, len(column))))
    if known is not None and known.kind in ("class", "text"):
        try:
            return ", ".join(sentence(str(text), MAX_WORD_CHARACTERS) for text in known.decode(first))
        except DataError:
            pass
    return ", ".join(_row(row) for row in first)


def _lengths(lengths: Array) -> str:
    if not len(lengths):
        return "no rows"
    empty = np.count_nonzero(lengths == 0)
    more = f", none in {empty} rows" if empty else ""
    return f"{lengths.min()} to {lengths.max()} elements in a row, {lengths.mean():.1f} in the mean{more}"


def _first(column: Rows, unequal: RaggedColumn, rows: int) -> list[Array]:
    """Return the first rows, each with its own length."""
    ends: list[int] = np.cumsum([0, *unequal.lengths[:rows]]).tolist()
    elements = rows_of(column, np.arange(ends[-1]))
    return [elements[start:stop] for start, stop in pairwise(ends)]


def _unequal_row(row: Array, known: Column | None) -> str:
    if known is not None and known.kind == "text":
        try:
            return sentence(str(known.decode(row)), MAX_WORD_CHARACTERS)
        except DataError:
            pass
    return _row(row) if len(row) else "[]"


def _said(column: Column) -> Iterator[str]:
    if column.values and column.kind in ("number", "whole"):
        yield "booleans: 0 for false, 1 for true"
    elif column.values:
        what = "classes" if column.kind == "class" else "words, from number 2 on"
        yield f"{len(column.values)} {what}: {_few(column.values)}"
    if column.mean is not None and column.deviation is not None:
        yield f"standardised: mean {column.mean:g} and deviation {column.deviation:g} of the training rows"
    yield from _fitted(column)
    if column.indicated:
        yield "two floats: the number, and 1 where it was missing"
    if column.fill is not None:
        yield f"missing values are {column.fill!r}"
    if column.kind == "text" and not column.tokenizer:
        yield from _text(column)


def _text(column: Column) -> Iterator[str]:
    """Return lines about texts of hashes, words or bytes."""
    if column.buckets:
        yield f"text: hashes of words, from 1 to {column.buckets - 1}"
    elif not column.values:
        yield "text: each byte and 1" + (", then 0" if column.length else "")
    count = column.buckets or (len(column.values) + 2 if column.values else 257)
    yield f"an embedding of them takes count={count}"


def _fitted(column: Column) -> Iterator[str]:
    """Return lines about dates, transforms and tokenizers."""
    if column.parts:
        yield f"dates: {', '.join(column.parts)}"
    if column.transform:
        yield "log(1 + x)" if column.transform == "log" else f"quantiles: {len(column.quantiles)} of the training rows"
    if column.one_hot:
        yield "a float for each class"
    if column.tokenizer:
        yield "text: subwords of byte-pair encoding and 1" + (", then 0" if column.length else "")


def _few(values: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(sentence(value, MAX_WORD_CHARACTERS) for value in values[:_SHOWN])
    return shown + (f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else "")


def _row(row: Array) -> str:
    numbers = np.asarray(row).reshape(-1)[:_SHOWN]
    if numbers.dtype.names:
        return "..."
    shown = " ".join(f"{number:.4g}" if numbers.dtype.kind == "f" else str(number) for number in numbers.tolist())
    return shown if np.ndim(row) == 0 else f"[{shown}{' ...' if np.size(row) > _SHOWN else ''}]"

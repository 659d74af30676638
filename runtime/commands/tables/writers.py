"""Tables as CSV, JSON lines and Parquet, written piece by piece.

Numbers have the digits that give the same number again: 9 for float32, 17 for float64 at most. CSV leaves the cell of
NaN, of infinities and of an unknown class empty, and JSON has null there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from json import dumps
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import numpy as np

from runtime.commands.tables.fields import Field
from runtime.dtypes import Array
from runtime.errors import UsageError
from runtime.rows.tables.extras import extra


class Writer(Protocol):
    """A file that takes the rows of a table."""

    def write(self, fields: Sequence[Field]) -> None:
        """Append rows."""
        ...

    def close(self) -> None:
        """Write the end of the file."""
        ...


class CsvWriter:
    """Comma-separated values in UTF-8, with a line of names."""

    def __init__(self, stream: BinaryIO, separator: str = ",") -> None:
        self._stream = stream
        self._separator = separator
        self._begun = False

    def write(self, fields: Sequence[Field]) -> None:
        """Append rows, after the names if these are the first."""
        if not self._begun:
            names = [_quoted(".".join(field.path), self._separator) for field in fields]
            self._stream.write((self._separator.join(names) + "\n").encode())
            self._begun = True
        cells = [_cells(field.values, lambda text: _quoted(text, self._separator), "") for field in fields]
        line = self._separator.replace("%", "%%").join(form for form, _ in cells) + "\n"
        rows = zip(*(values for _, values in cells), strict=True)
        self._stream.write("".join(map(line.__mod__, rows)).encode("utf-8", "surrogatepass"))

    def close(self) -> None:
        """Write nothing: the last row is the end."""


class JsonWriter:
    """An object for each row on a line of its own; a fetch with several elements is an object inside."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, fields: Sequence[Field]) -> None:
        """Append rows."""
        cells = [_cells(field.values, dumps, "null") for field in fields]
        groups: dict[str, list[str]] = {}
        for field, (form, _) in zip(fields, cells, strict=True):
            inner = ".".join(field.path[1:])
            member = f"{_key(inner)}: {form}" if inner else form
            groups.setdefault(field.path[0], []).append(member)
        nested = {field.path[0] for field in fields if len(field.path) > 1}
        parts = [
            f"{_key(name)}: " + ("{" + ", ".join(forms) + "}" if name in nested else forms[0])
            for name, forms in groups.items()
        ]
        line = "{" + ", ".join(parts) + "}\n"
        rows = zip(*(values for _, values in cells), strict=True)
        self._stream.write("".join(map(line.__mod__, rows)).encode("utf-8", "surrogatepass"))

    def close(self) -> None:
        """Write nothing: the last row is the end."""


class ParquetWriter:
    """A Parquet file, by pyarrow."""

    def __init__(self, stream: BinaryIO) -> None:
        self._arrow = extra("pyarrow", "writing Parquet")
        self._parquet = extra("pyarrow.parquet", "writing Parquet")
        self._stream = stream
        self._writer: Any = None

    def write(self, fields: Sequence[Field]) -> None:
        """Append rows."""
        table = self._arrow.table({".".join(field.path): self._array(field.values) for field in fields})
        if self._writer is None:
            self._writer = self._parquet.ParquetWriter(self._stream, table.schema)
        self._writer.write_table(table)

    def _array(self, values: Array) -> Any:
        if values.dtype.kind not in "OUS":
            return self._arrow.array(np.ascontiguousarray(values))
        texts = [None if value is None else str(value) for value in values.tolist()]
        return self._arrow.array(texts, self._arrow.string())

    def close(self) -> None:
        """Write the description of the columns."""
        if self._writer is not None:
            self._writer.close()


WRITERS: Final[dict[str, Callable[[BinaryIO], Writer]]] = {
    ".csv": CsvWriter,
    ".tsv": lambda stream: CsvWriter(stream, "\t"),
    ".jsonl": JsonWriter,
    ".parquet": ParquetWriter,
}
"""The writers by the suffix of the file."""


def require_writer(path: Path) -> None:
    """Raise UsageError for a file whose suffix names no format of tables, or one that needs a missing package."""
    if path.suffix.lower() not in WRITERS:
        raise UsageError(f"--out {path}: tables of predictions are called *.csv, *.tsv, *.jsonl or *.parquet")
    if path.suffix.lower() == ".parquet":
        extra("pyarrow.parquet", "writing Parquet")


def _cells(values: Array, quoted: Callable[[str], str], nothing: str) -> tuple[str, list[Any]]:
    """Return the form of a cell for the operator %, and a value for each row."""
    if values.dtype.kind in "OUS":
        texts = values.tolist()
        known = {text: nothing if text is None else quoted(str(text)) for text in set(texts)}  # classes have few texts
        return "%s", [known[text] for text in texts]
    if values.dtype.kind == "b":
        return "%s", ["true" if value else "false" for value in values.tolist()]
    if values.dtype.kind != "f":
        return "%d", values.tolist()
    form = "%.9g" if values.dtype.itemsize <= 4 else "%.17g"
    if np.isfinite(values).all():
        return form, values.tolist()
    return "%s", [form % value if np.isfinite(value) else nothing for value in values.tolist()]


def _quoted(text: str, separator: str) -> str:
    """Return a text as CSV has it, in quotes only if it needs them."""
    if text.isalnum():
        return text
    if separator in text or '"' in text or "\n" in text or "\r" in text or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


def _key(name: str) -> str:
    """Return a name as a key of JSON, inside a form for the operator %."""
    return dumps(name).replace("%", "%%")

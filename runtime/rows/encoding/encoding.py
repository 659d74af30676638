"""All columns of a packed file: a line of JSON in its header, from which new rows are encoded and labels decoded."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from json import dumps
from math import prod
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from prograd_proto import ProgramError, TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.ragged_names import OFFSETS, base_of
from prograd_proto.spelling import closest, closest_or_all
from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.files.tensor_files import read_metadata
from runtime.rows.encoding.column import Column
from runtime.rows.encoding.column_fields import is_text, json_of
from runtime.rows.encoding.images import Images
from runtime.rows.encoding.scores import value_of_largest
from runtime.rows.encoding.series import Series, groups_of
from runtime.rows.encoding.values import shown

_log = logging.getLogger("prograd")

KEY: Final = "prograd_columns"
"""Key of the encoding in the metadata of a safetensors file."""

FORMAT: Final = 1

_KEYS: Final = frozenset({"format", "columns", "joined", "images", "series"})

MAX_NUMBER_CHARACTERS: Final = 32
"""Upper bound on the characters of a number of float64 or int64."""

NUMBER_BYTES: Final = 8
"""Bytes of the number of a word or byte, int64."""

TEXT_BYTES: Final = 64
"""Upper bound on the bytes that a character of a text takes while texts become numbers of bytes or words."""


@dataclass(frozen=True)
class Encoding:
    """The encoding of a table as arrays.

    Attributes:
        columns: columns of the table by name.
        joined: arrays of numbers [rows, columns] by name, with the columns that they consist of.
        images: arrays of images by name.
        series: windows of consecutive rows, or None if each row is one by itself.
    """

    columns: dict[str, Column]
    joined: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    images: dict[str, Images] = field(default_factory=dict[str, Images])
    series: Series | None = None

    @property
    def metadata(self) -> dict[str, str]:
        """Return the metadata for the header of a file."""
        said: dict[str, object] = {"format": FORMAT}
        said["columns"] = [column.to_json() for column in self.columns.values()]
        said["joined"] = self.joined
        if self.images:
            said["images"] = {name: images.to_json() for name, images in self.images.items()}
        if self.series is not None:
            said["series"] = self.series.to_json()
        return {KEY: dumps(said, separators=(",", ":"))}

    @classmethod
    def of_file(cls, path: Path) -> Encoding:
        """Return the encoding that `metadata` wrote into a file; raise DataError if there is none, or a damaged one."""
        return cls.of_metadata(path, read_metadata(path))

    @classmethod
    def of_metadata(cls, path: Path, metadata: Mapping[str, str]) -> Encoding:
        """Return the encoding in the metadata of a file; errors name the file."""
        if KEY not in metadata:
            made = "compiler data pack writes one that does"
            raise DataError(f"{path}: the file does not say how its rows were made; {made}")
        try:
            return cls.parsed(metadata[KEY])
        except ValueError as error:
            raise DataError(f"{path}: the encoding of its columns is damaged: {error}") from None

    @classmethod
    def of_program(cls, program: pb.ProgramDesc) -> Encoding | None:
        """Return the encoding in a program, None if it has none; raise ProgramError for a damaged one."""
        if not program.data.encoding:
            return None
        try:
            return cls.parsed(program.data.encoding)
        except ValueError as error:
            raise ProgramError(f"program {program.name!r}: the encoding of its columns is damaged: {error}") from None

    @classmethod
    def parsed(cls, text: str) -> Encoding:
        """Return the encoding that a text describes; raise ValueError unless `metadata` may have written it."""
        said = json_of(text)
        given = cast(dict[str, Any], said) if isinstance(said, dict) else {}
        if type(given.get("format")) is not int or given["format"] != FORMAT:
            raise ValueError(f"it is not of format {FORMAT}")
        if not given.keys() <= _KEYS:
            raise ValueError(f"it has {shown(min(given.keys() - _KEYS))}, which is unknown")
        listed, joined, images = given.get("columns"), given.get("joined"), given.get("images", {})
        if not isinstance(listed, list) or not isinstance(joined, dict) or not isinstance(images, dict):
            raise ValueError("it has no columns")
        columns = _columns(cast(list[object], listed))
        parts = {name: _members(name, those, columns) for name, those in cast(dict[str, object], joined).items()}
        pictures = {_text(name): Images.from_json(values) for name, values in cast(dict[str, object], images).items()}
        series = Series.from_json(given["series"]) if "series" in given else None
        if series is not None and not {*series.known, *filter(None, [series.target])} <= columns.keys():
            raise ValueError("its windows have a target or a known column that it has not")
        return cls(columns, parts, pictures, series)

    def encode(self, table: Mapping[str, Array], keys: Iterable[str]) -> dict[str, Array]:
        """Return the arrays of these names for rows of a table, with the offsets of rows of unequal length.

        Raises DataError for an unknown name, a column that the table lacks, or a value without a number.
        """
        if self.series is not None:
            return self._windows(self.series, table, list(keys))
        found: dict[str, Array] = {}
        for key in keys:
            name = key if key in self.columns else base_of(key) or key
            if name in self.columns and self.columns[name].is_ragged:
                found[name], found[name + OFFSETS] = self.columns[name].ragged(_there(table, name))
            else:
                found[key] = self._array(table, key)
        return found

    def _windows(self, series: Series, table: Mapping[str, Array], keys: list[str]) -> dict[str, Array]:
        if not keys:
            return {}
        groups = self.groups(table)
        self._say_falling(table, groups)
        first = series.behind.get(keys[0]) or self.members(keys[0])[0].name
        starts = series.starts(len(_there(table, first)), groups, targets=series.key in keys)
        found: dict[str, Array] = {}
        for key in keys:
            name = series.behind.get(key)
            if name is None:
                found[key] = self._of_windows(series, table, key, starts)
            else:
                found[key] = series.targets(self._array(table, name), starts)
        return found

    def _of_windows(self, series: Series, table: Mapping[str, Array], key: str, starts: Array) -> Array:
        """Return the windows of an array; known columns need no values in rows behind all windows."""
        if not series.known:
            return series.windows(self._array(table, key), starts)
        names = [column.name for column in self.members(key)]
        is_inside = np.zeros(len(_there(table, names[0])), bool)
        is_inside[(starts[:, None] + np.arange(series.length)).reshape(-1)] = True
        inside = np.flatnonzero(is_inside)
        part = self._array({name: _there(table, name)[inside] for name in names}, key)
        whole = np.zeros((len(is_inside), *part.shape[1:]), part.dtype)
        whole[inside] = part
        return series.windows(whole, starts)

    def _say_falling(self, table: Mapping[str, Array], groups: Array | None) -> None:
        """Log dates that fall from one row of a series to the next."""
        for name, column in self.columns.items():
            if column.kind != "date" or name not in table:
                continue
            falls = np.diff(column.days(table[name])) < 0
            if groups is not None:
                falls &= groups[1:] == groups[:-1]
            if falls.any():
                _log.warning(
                    "%r falls from row %d to the next, and windows take rows in their order; sort the table by %r",
                    *(name, int(falls.argmax()), name),
                )

    def groups(self, table: Mapping[str, Array]) -> Array | None:
        """Return for each row of a table the number of its series; None if all rows are one.

        Raises DataError, which names the row, for a series whose rows do not follow each other.
        """
        if self.series is None or not self.series.group:
            return None
        name = self.series.group
        return groups_of(name, _there(table, name))

    def window_ends(self, table: Mapping[str, Array], rows: int) -> Array:
        """Return the last row of each window of a table, or each row if there are no windows."""
        if self.series is None:
            return np.arange(rows)
        needed = self.series.needed(targets=False)
        return self.series.starts_of(rows, self.groups(table), needed) + self.series.length - 1

    def knows(self, name: str) -> bool:
        """Return True if a name is that of a column, or of the only target of windows."""
        return name in self.columns or (name in self._behind and not self.joins(name))

    def joins(self, name: str) -> bool:
        """Return True if a row of an array has values of several columns, or of one column at several rows."""
        return name in self.joined or (self.series is not None and len(self.series.ahead) > 1 and name in self._behind)

    @property
    def _behind(self) -> dict[str, str]:
        return {} if self.series is None else self.series.behind

    def text_bytes(self, table: Mapping[str, Array], keys: Iterable[str]) -> int:
        """Return an upper bound on the bytes that encoding the columns of texts takes."""
        names = {key if key in self.columns else base_of(key) or key for key in keys}
        texts = {name: table[name] for name in names if name in table and self._is_text(name)}
        padded = sum(NUMBER_BYTES * self.columns[name].length * len(column) for name, column in texts.items())
        return padded + TEXT_BYTES * sum(map(_characters, texts.values()))

    def decode(self, name: str, numbers: Array) -> Array:
        """Return the values of a column's numbers; for floats, with one column per value, the value of the largest.

        A row of floats with NaN has the value None.

        Raises DataError if there is no such column, or a number stands for no value.
        """
        column = self.column(name)
        with_values = column.kind in ("class", "text") and numbers.shape[1:] == (len(column.values),)
        if numbers.dtype.kind == "f" and with_values:
            return value_of_largest(column, numbers)
        return column.decode(numbers)

    def members(self, key: str) -> list[Column]:
        """Return a column for each part of an array's rows; raise DataError for an unknown array."""
        if key in self.joined:
            return [self.columns[name] for name in self.joined[key]]
        if self.series is not None and self.joins(key):
            return [replace(self.column(key), name=f"{key}.{row}") for row in self.series.ahead]
        return [self.column(key)]

    def sources(self, key: str) -> list[Column]:
        """Return the columns of a table that the values of an array come from; raise DataError as `members` does."""
        return [self.columns[self._behind[key]]] if key in self._behind else self.members(key)

    def require_row(self, feed: str, key: str, type: TensorType) -> None:
        """Raise DataError for an array whose rows have another number of elements than those of a feed.

        Raises DataError for an unknown array too. Rows of unequal length fit any feed.
        """
        counts = [column.row_elements for column in self.members(key)]
        shape = type.shape[1:]
        if None in counts or not all(isinstance(extent, int) for extent in shape):
            return
        steps = self.series.length if self.series is not None and key not in self._behind else 1
        count = steps * sum(cast(list[int], counts))
        if count != prod(cast(tuple[int, ...], shape)):
            raise DataError(f"the feed {feed!r} is {type}, and the encoding of {key!r} makes {count} numbers of a row")

    def _is_text(self, name: str) -> bool:
        return name in self.columns and self.columns[name].kind == "text"

    def _array(self, table: Mapping[str, Array], key: str) -> Array:
        if key in self.joined:
            parts = [self._encoded(table, name) for name in self.joined[key]]
            return np.concatenate([part if part.ndim == 2 else part[:, None] for part in parts], axis=1)
        return self._encoded(table, key)

    def _encoded(self, table: Mapping[str, Array], name: str) -> Array:
        return self.column(name).encode(_there(table, name))

    def column(self, name: str) -> Column:
        """Return the column of that name; raise DataError if there is none."""
        if name in self._behind:
            return replace(self.columns[self._behind[name]], name=name)
        if name not in self.columns:
            raise DataError(f"the packed rows have no column {name!r}{closest_or_all(name, self.columns)}")
        return self.columns[name]


def _columns(listed: list[object]) -> dict[str, Column]:
    """Return columns from JSON by name."""
    columns = [Column.from_json(values) for values in listed]
    found = {column.name: column for column in columns}
    if len(found) < len(columns):
        raise ValueError("it has two columns of one name")
    return found


def _members(name: str, members: object, columns: Mapping[str, Column]) -> tuple[str, ...]:
    """Return the names of joined columns from JSON."""
    names = cast(list[object], members) if isinstance(members, list) else []
    if not names or not all(isinstance(member, str) and member in columns for member in names):
        raise ValueError(f"it joins columns as {shown(name)} that it has not")
    found = tuple(cast(list[str], names))
    if not all(columns[member].is_joinable for member in found):
        raise ValueError(f"it joins texts or lists as {shown(name)}")
    if name in columns and name not in found:
        raise ValueError(f"it joins columns as {shown(name)}, which is another column")
    _text(name)
    return found


def _text(name: str) -> str:
    if not is_text(name):
        raise ValueError(f"it has an array {shown(name)}, which is no text")
    return name


def _characters(column: Array) -> int:
    """Return an upper bound on the characters of texts, the words of lists, or the digits of numbers."""
    if column.dtype.kind != "O":
        return MAX_NUMBER_CHARACTERS * len(column)
    values: list[object] = column.tolist()
    return sum(len(value) for value in values if isinstance(value, str | list))  # pyright: ignore[reportUnknownArgumentType]: a list of anything


def _there(table: Mapping[str, Array], name: str) -> Array:
    if name not in table:
        raise DataError(f"the rows have no column {name!r}{closest(name, table) or '; add it'}")
    return table[name]

"""Conversion of a source to arrays, with their encoding.

1. The source is read as columns of values, and as arrays that are not encoded.
2. Rows with a missing value are left out where the options say so.
3. Rows are assigned to splits; the first one is for training.
4. The kind of each column is determined, and the column is encoded.
5. Number columns to join are concatenated in one array.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from compiler.data.fit import Levels, fitted, has_commas, is_missing
from compiler.data.images import like_images, read_images, require_alike
from compiler.data.named import require_kept, require_used
from compiler.data.options import Names, PackOptions, is_pattern
from compiler.data.series import Windows, require_no_gap, series_of, split_windows
from compiler.data.splits import split_rows, times_of
from compiler.data.tables import read_arrays_of
from compiler.data.texts import read_lines, read_subwords, read_windows
from prograd_proto.spelling import closest
from prograd_proto.wording import as_asked
from runtime.dtypes import Array
from runtime.errors import DataError, UsageError
from runtime.rows.encoding.class_texts import class_order, kinds_of
from runtime.rows.encoding.column import Column
from runtime.rows.encoding.column_fields import MAX_BUCKETS, MAX_LENGTH
from runtime.rows.encoding.csv_rows import Table, read_csv
from runtime.rows.encoding.dates import is_date_format
from runtime.rows.encoding.encoding import KEY, Encoding
from runtime.rows.encoding.images import Images
from runtime.rows.encoding.lists import is_listed
from runtime.rows.encoding.row_errors import original_rows
from runtime.rows.encoding.series import Series
from runtime.rows.encoding.values import require_values, with_points
from runtime.rows.table_names import suffix_of, way_from
from runtime.rows.tables.arrow import arrow_columns, is_arrow, read_parquet
from runtime.rows.tables.columns import as_column, as_columns, frame_columns, levels_of
from runtime.rows.tables.read_table import read_table


class Source(NamedTuple):
    """The content of a source.

    Attributes:
        table: columns of values by name.
        arrays: arrays that are rows already, by name.
        images: the sizes of the images among the arrays.
        levels: the classes of columns whose source orders them.
        numbers: int64 [rows], the number of each row in the source, or its line; None if rows count from 0.
        in_lines: True if the numbers are lines of a text file.
        encoded: the encodings of arrays that the source itself gives.
    """

    table: dict[str, Array]
    arrays: dict[str, Array]
    images: dict[str, Images] = {}  # noqa: RUF012 - nothing is put into it
    levels: dict[str, Levels] = {}  # noqa: RUF012 - nothing either
    numbers: Array | None = None
    in_lines: bool = False
    encoded: dict[str, Column] = {}  # noqa: RUF012 - nor into this

    @property
    def names(self) -> list[str]:
        """Return the names of all columns and arrays."""
        return [*self.table, *self.arrays]

    def row_name(self, row: int) -> str:
        """Return the words for a row, as in "row 3" or "line 5"."""
        number = row if self.numbers is None else self.numbers[row]
        return f"{'line' if self.in_lines else 'row'} {number}"


class Packed(NamedTuple):
    """The number of rows, their arrays, the row numbers of each split, and the encodings of columns."""

    rows: int
    arrays: dict[str, Array]
    splits: dict[str, Array]
    encoding: Encoding


def packed(source: object, options: PackOptions) -> Packed:
    """Return the packed rows of a file, a folder, a frame of pandas, or a mapping of columns.

    Raises UsageError for options that name missing columns, DataError for a source that cannot be read or encoded.
    """
    _require_encodable(options)
    found = read_source(source, options)
    _require_windows(found, options)
    _require_named(found, options)
    found = _rows_that_stay(found, options)
    with original_rows(found.numbers, lines=found.in_lines):
        return _packed(found, options)


def _require_encodable(options: PackOptions) -> None:
    """Raise UsageError for a format of dates or a length of texts that no encoding can have."""
    if not is_date_format(options.date_format):
        asked = as_asked(f"--date-format {options.date_format}", f"date_format={options.date_format!r}")
        raise UsageError(f"{asked}: it is no format of strptime that has each part once; %d.%m.%Y is one")
    for name, count in options.hash.items():
        if count > MAX_BUCKETS:
            raise UsageError(f"hash: words of {name!r} have {count} hashes; at most {MAX_BUCKETS} are supported")
    for option, lengths in (("text", options.text), ("words", options.words), ("bpe", options.bpe)):
        for name, length in lengths.items():
            if length > MAX_LENGTH:
                raise UsageError(
                    f"{option}: a row of {name!r} has {length} numbers; at most {MAX_LENGTH} are supported"
                )


def _require_windows(found: Source, options: PackOptions) -> None:
    """Raise UsageError for options of windows without windows, or windows of a source that has no order of rows."""
    if options.window is None:
        _require_no_windows(options)
    elif found.encoded and any(options.bpe.values()):
        raise UsageError(f"bpe: a window has {options.window} subwords, so leave out the length of 'text'")
    elif not found.table and [*found.arrays] != ["text"]:
        raise UsageError("window: windows are of .txt files, or of the rows of a table; leave it out")
    if options.target is not None:
        _require_target(found, options, options.target)
    elif tuple(options.ahead) != (1,) and not options.known:
        raise UsageError("ahead: how far the targets of windows are says nothing without them; give target too")


def _require_no_windows(options: PackOptions) -> None:
    for name, what in (
        ("stride", "how far windows lie apart"),
        ("target", "the value behind each window"),
        ("known", "what is known behind each window"),
    ):
        if getattr(options, name):
            raise UsageError(f"{name}: {what} says nothing without them; give window too")


def _require_target(found: Source, options: PackOptions, target: str) -> None:
    if target not in found.table:
        hint = closest(target, found.table) or f"; there are {', '.join(found.names)}"
        raise UsageError(f"target: there is no column {target!r}{hint}")
    if target in options.names["known"]:
        raise UsageError(f"known: {target!r} is the target of the windows, and no row knows it; leave it out")


def _packed(found: Source, options: PackOptions) -> Packed:
    count = _rows(found)
    series = series_of(options, found.table) if options.window and found.table else None
    values, windows = _values(found, options), None
    if series is None:
        splits = split_rows(options.split, count, options.by, values, options.seed)
        training = next(iter(splits.values()), np.arange(count))
    else:
        windows = split_windows(options, series, count, values)
        splits, training = windows.splits, windows.training
    table = found.table
    found = _columns_that_stay(found, options)
    columns = {
        name: fitted(name, raw, training, options, found.levels.get(name, Levels()), found.row_name)
        for name, raw in found.table.items()
    }
    columns |= found.encoded
    require_used(options, columns)
    joined = {name: _members(name, patterns, columns) for name, patterns in options.join.items()}
    images = {name: images for name, images in found.images.items() if name in found.arrays}
    encoding = Encoding(columns, joined, images, series)
    _require_readable(encoding)
    if series is not None and windows is not None:
        return _packed_windows(found, table, encoding, series, windows)
    members = {name for names in joined.values() for name in names}
    alone = [name for name in columns if name not in members and name not in found.encoded]
    arrays = found.arrays | encoding.encode(found.table, [*alone, *joined])
    return Packed(count, arrays, splits, encoding)


def _require_readable(encoding: Encoding) -> None:
    """Raise DataError for an encoding that a reader would refuse, as one of texts that UTF-8 cannot write."""
    try:
        Encoding.parsed(encoding.metadata[KEY])
    except ValueError as error:
        raise DataError(f"the rows cannot be encoded: {error}") from None


def _packed_windows(
    found: Source, table: dict[str, Array], encoding: Encoding, series: Series, windows: Windows
) -> Packed:
    """Return the windows of a table, which has the column of series also where that is dropped."""
    others = [*found.arrays, *(name for name, column in encoding.columns.items() if column.is_ragged)]
    if others:
        raise UsageError(
            f"window: windows are of numbers and classes, and {others[0]!r} has arrays, lists or texts; leave it out "
            "by drop"
        )
    members = {name for names in encoding.joined.values() for name in names}
    keys = [name for name in encoding.columns if name not in members] + [*encoding.joined]
    arrays = encoding.encode(table, [*keys, *series.behind])
    arrays = {name: array[windows.kept] for name, array in arrays.items()}
    return Packed(len(windows.kept), arrays, windows.splits, encoding)


def packed_like(source: object, encoding: Encoding, options: PackOptions) -> Packed:
    """Return rows encoded like those of another file; columns that it does not have are left out.

    Raises DataError for a source that has none of its columns, or a value without a number in the encoding.
    """
    found = _with_packed_columns(read_source(source, options, encoding), encoding)
    count = _rows(found)
    members = {name for part in encoding.joined.values() for name in part}
    keys = [name for name in encoding.columns if name not in members and name in found.table]
    keys += _behind_windows(encoding, found.table)
    keys += [name for name, part in encoding.joined.items() if any(member in found.table for member in part)]
    if not keys and not found.arrays:
        raise DataError(f"the rows have none of the columns {', '.join([*encoding.columns, *encoding.images])}")
    for name, images in encoding.images.items():
        if name in found.arrays:
            require_alike(name, found.arrays[name], images)
    with original_rows(found.numbers, lines=found.in_lines):
        return Packed(count, found.arrays | encoding.encode(found.table, keys), {}, encoding)


def _behind_windows(encoding: Encoding, table: Mapping[str, Array]) -> list[str]:
    """Return the arrays behind windows that a table has; with known columns its last rows may lack the target."""
    series = encoding.series
    behind = {} if series is None else {key: name for key, name in series.behind.items() if name in table}
    if series is not None and series.known and series.key in behind and is_missing(table[series.target]).any():
        del behind[series.key]
    return list(behind)


def read_source(source: object, options: PackOptions, like: Encoding | None = None) -> Source:
    """Return the columns and arrays of a source; `like` has the sizes of images of another file.

    Raises DataError if it cannot be read, UsageError if it is no valid source.
    """
    if isinstance(source, Mapping):
        columns = as_columns(source)  # pyright: ignore[reportUnknownArgumentType]: names are looked at
        return Source(
            {name: array for name, array in columns.items() if array.ndim == 1},
            {name: array for name, array in columns.items() if array.ndim != 1},
        )
    if hasattr(source, "columns") and hasattr(source, "dtypes") and hasattr(source, "iloc"):
        return Source(frame_columns(source), {}, levels=_ordered(levels_of(source)))
    if is_arrow(source):
        columns, levels = arrow_columns(source)
        return Source(columns, {}, levels=_ordered(levels))
    if not isinstance(source, str | os.PathLike):
        raise UsageError(f"{type(source).__name__} is no source of rows: a path, a frame, or arrays by name")
    path = Path(os.fspath(source))  # pyright: ignore[reportUnknownArgumentType]: a path of text
    if path.is_dir():
        images, labels, what = read_images(path, options, None if like is None else like_images(path, like))
        table = {"label": labels} if labels.all() else {}
        folders = Levels(tuple(class_order("text", labels.tolist())), exact=True)
        return Source(table, {"image": images}, {"image": what}, {"label": folders})
    for option in ("size", "grey"):
        if getattr(options, option):
            raise UsageError(f"{option}: {path} is none of the folders of images that this is for")
    return _of_file(path, options)


def _ordered(levels: Mapping[str, tuple[str, ...]]) -> dict[str, Levels]:
    return {name: Levels(values) for name, values in levels.items()}


def _of_file(path: Path, options: PackOptions) -> Source:
    match path.suffix.lower():
        case ".csv" | ".tsv":
            return _of_lines(read_csv(path))
        case _ if suffix_of(path) in (".csv", ".tsv", ".jsonl", ".ndjson") and path.exists():
            piece = read_table(path)
            return Source(piece.columns, {}, numbers=piece.numbers, in_lines=True)
        case ".parquet" | ".pq":
            return Source(read_parquet(path), {})
        case ".npy" | ".npz":
            return _of_arrays(read_arrays_of(path))
        case ".txt" | ".text":
            return _of_text(path, options)
        case _:
            if not path.exists():
                raise DataError(f"{path}: no such file or folder")
            packed = (
                "rows are packed from .csv, .tsv, .jsonl, .parquet, .npy, .npz and .txt files, and folders of images"
            )
            raise UsageError(f"{path}: {way_from(path) or packed}")


def _of_text(path: Path, options: PackOptions) -> Source:
    """Return the lines of a text, or its windows of bytes or subwords."""
    if options.window is None:
        return _of_lines(read_lines(path))
    if "text" not in options.names["bpe"]:
        return Source({}, read_windows(path, options.window, options.stride))
    arrays, column = read_subwords(path, options.window, options.stride, options.vocabulary)
    return Source({}, arrays, encoded={"text": column})


def _of_lines(table: Table) -> Source:
    return Source(table.columns, {}, numbers=table.lines, in_lines=True)


def _with_packed_columns(source: Source, like: Encoding) -> Source:
    """Return the source with its arrays of columns that were packed of a table in the table, where they are encoded.

    Raises DataError for an array that several columns were joined to.
    """
    joined = next((name for name in source.arrays if name in like.joined and name not in like.columns), None)
    if joined is not None:
        raise DataError(f"{joined!r} was joined of {', '.join(like.joined[joined])}; give these, which are encoded")
    meant = {name: array for name, array in source.arrays.items() if name in like.columns}
    others = {name: array for name, array in source.arrays.items() if name not in meant}
    return source._replace(table=source.table | as_columns(meant), arrays=others)


def _of_arrays(arrays: dict[str, Array]) -> Source:
    """Return a source of arrays; texts on one axis become a column."""
    texts = {name for name, array in arrays.items() if array.ndim == 1 and array.dtype.kind in "US"}
    table = {name: as_column(arrays[name].astype(np.str_).tolist()) for name in texts}
    return Source(table, {name: array for name, array in arrays.items() if name not in texts})


def _require_column(source: Source, option: str, pattern: str) -> None:
    names = source.names if option == "drop" else source.encoded if option == "bpe" and source.encoded else source.table
    if _is_there(pattern, names):
        return
    if _is_there(pattern, source.arrays):
        lines = "" if source.table or [*source.arrays] != ["text"] else "; leave window out, so that each line is a row"
        raise UsageError(f"{option}: {pattern!r} is an array, which stays as it is{lines}")
    hint = closest(pattern, source.names) or f"; there are {', '.join(source.names)}"
    raise UsageError(f"{option}: there is no column {pattern!r}{hint}")


def _is_there(pattern: str, names: Collection[str]) -> bool:
    if not is_pattern(pattern, names):
        return pattern in names
    meant = Names([pattern])
    return any(name in meant for name in names)


def _require_named(source: Source, options: PackOptions) -> None:
    for option, patterns in options.named.items():
        for pattern in patterns:
            _require_column(source, option, pattern)
    require_kept(options, {name for name in source.names if name in options.names["drop"]})
    if options.of is None and options.by != "random":
        raise UsageError(
            f"splits by {options.by} go by a column; name it, as in "
            + as_asked(f"--by {options.by}={source.names[-1]}", f"of={source.names[-1]!r}")
        )
    if options.of is not None and options.by == "random":
        raise UsageError(
            f"of={options.of!r} is a column that splits go by, and splits at random go by none; "
            'give by="stratified", "time" or "group" with it'
        )
    if options.of is not None and options.of not in source.names:
        raise UsageError(f"by: there is no column {options.of!r}{closest(options.of, source.names)}")
    for name in (*options.split, *options.join):
        if name in source.names and name not in options.join.get(name, ()):
            raise UsageError(f"{name!r} is a column, and a split or joined columns cannot have its name")


def _rows_that_stay(source: Source, options: PackOptions) -> Source:
    """Return the source without the rows that lack a value in columns with the replacement "drop"."""
    meant = Names(pattern for pattern, word in options.missing.items() if word == "drop")
    gone = {name: is_missing(raw) for name, raw in source.table.items() if name in meant}
    if not gone:
        return source
    stay = ~np.logical_or.reduce([*gone.values()])
    for name, missing in gone.items() if options.window else ():
        with original_rows(source.numbers, lines=source.in_lines):
            require_no_gap(name, ~missing)
    table = {name: array[stay] for name, array in source.table.items()}
    arrays = {name: array[stay] for name, array in source.arrays.items()}
    numbers = np.flatnonzero(stay) if source.numbers is None else source.numbers[stay]
    return source._replace(table=table, arrays=arrays, numbers=numbers)


def _columns_that_stay(source: Source, options: PackOptions) -> Source:
    drop = options.names["drop"]
    table = {name: array for name, array in source.table.items() if name not in drop}
    arrays = {name: array for name, array in source.arrays.items() if name not in drop}
    found = source._replace(table=table, arrays=arrays)
    if not found.names:
        raise UsageError("every column is dropped")
    return found


def _rows(source: Source) -> int:
    lengths = {name: len(array) if array.ndim else 0 for name, array in (source.table | source.arrays).items()}
    if not lengths:
        raise DataError("there are no columns")
    first, count = next(iter(lengths.items()))
    for name, length in lengths.items():
        if length != count:
            raise DataError(f"the columns differ in their number of rows: {first!r} has {count}, {name!r} {length}")
    if not count:
        raise DataError(f"there are no rows of {', '.join(lengths)}")
    return count


def _values(source: Source, options: PackOptions) -> Array | None:
    """Return the values of the column that splits depend on, in an order that sorts them; None if there is none."""
    if options.of is None:
        return None
    raw: Any = source.table.get(options.of, source.arrays.get(options.of))
    if raw is None or raw.ndim != 1 or is_listed(raw):
        raise UsageError(f"by: the column {options.of!r} has no single values")
    require_values(options.of, raw)
    raw = with_points(options.of, raw) if options.decimal == "," and has_commas(raw) else raw
    return times_of(options.of, raw, options.date_format) if options.by == "time" else kinds_of(raw)


def _members(name: str, patterns: Sequence[str], columns: Mapping[str, Column]) -> tuple[str, ...]:
    """Return the columns to join, in the order of names and patterns.

    The columns of one pattern are in the order of the table.
    """
    joinable = dict.fromkeys(column.name for column in columns.values() if column.is_joinable)
    found: dict[str, None] = {}
    for pattern in patterns:
        meant, candidates = Names([pattern]), joinable if is_pattern(pattern, ()) else {pattern} & joinable.keys()
        found |= dict.fromkeys(column for column in candidates if column in meant)
    if not found:
        raise UsageError(f"join {name}: none of these columns is of numbers")
    return tuple(found)

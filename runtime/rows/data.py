"""The program's own rows: columns and splits of its data file."""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import HALVES, INTEGERS, REALS
from prograd_proto.file_names import files_of, matching
from prograd_proto.ragged_names import OFFSETS, PADDING, base_of, is_ragged_key
from prograd_proto.spelling import closest
from runtime.dtypes import Array, array_type, numpy_dtype
from runtime.entries import BoundEntry, Feed
from runtime.errors import DataError, UsageError
from runtime.files.file_reader import FileReader
from runtime.files.program_files import verified
from runtime.files.tensor_files import metadata_of, require_keys, unverified
from runtime.memory.limit import NO_LIMIT, MemoryLimit
from runtime.rows.casts import cast_rows, is_cast, say_cast
from runtime.rows.data_files import Columns, read_columns
from runtime.rows.orders import NUMBER_BYTES, Listed, Order, Span
from runtime.rows.rows import Rows, common_length
from runtime.rows.stored_column import Column, FileColumn, StoredColumn, StoredNumbers
from runtime.rows.table_names import OTHER_FORMS, PACKED, are_images, is_table, way_from

_log = logging.getLogger("prograd")

if TYPE_CHECKING:
    from runtime.rows.encoding.encoding import Encoding
    from runtime.rows.ragged import RaggedColumn

_CHECKED: Final = 1 << 17
"""Number of row numbers that are checked at a time."""


class Data:
    """A program's description of its rows, and the columns that were read so far; files are read on first use.

    Attributes:
        given: the file that replaces the program's own, or None.
    """

    def __init__(
        self, program: pb.ProgramDesc, folder: Path, file: Path | None = None, memory: MemoryLimit = NO_LIMIT
    ) -> None:
        """Read nothing yet; `file` replaces the program's own data file, and may be any file with the same keys."""
        self._program = program
        if file is not None and file.suffix.lower() in OTHER_FORMS:
            read = "rows are read from .safetensors, .npz, .csv, .jsonl, .parquet and .txt files"
            like = f" {file} --like {program.data.file}" if program.data.encoding else ""
            packed = f"; compiler data pack{like} makes one of it" if file.suffix.lower() in PACKED else ""
            raise DataError(f"{file}: {way_from(file) or read + packed}")
        if file is not None and are_images(file) and not self.has_images:
            if file.is_dir():
                inside = file / "part-*.safetensors"
                raise DataError(f"{file}: this is a folder; name the files of rows in it, as in '{inside}'")
            raise DataError(f"{file}: this is an image, and the rows of the program were not packed of images")
        self._folder = folder
        self.given = file
        self._memory = memory
        self._file = file or folder / program.data.file
        self._columns = Columns({}, [])
        self._cast: dict[str, FileColumn] = {}
        self._ragged: dict[str, RaggedColumn] = {}

    @property
    def exists(self) -> bool:
        """True if the program describes a source of rows."""
        return self._program.HasField("data")

    def rows(self, bound: BoundEntry, split: str | None) -> Rows:
        """Return the rows of a split, or all of them, for the feeds of an entry.

        Raises UsageError if there is no such split. Raises DataError if the file is missing or damaged, lacks a key
        or rows, or has another dtype or shape.
        """
        keys = {column.feed: column.key for column in self._program.data.columns}
        for feed in bound.feeds.values():
            if feed.name not in keys:
                raise DataError(
                    f"entry {bound.name!r} reads the feed {feed.name!r}, which no column of the data gives; "
                    f"name its key by program.data(…, columns={{{feed.name!r}: 'KEY'}})"
                )
        selection = self._split(split) if split is not None and not self._is_table else None
        self._read([keys[name] for name in bound.feeds], selection)
        columns = {feed.name: self._column(feed, keys[feed.name]) for feed in bound.feeds.values()}
        count = common_length(columns, "column", 0)
        first = keys[next(iter(bound.feeds))]
        if all(isinstance(column, np.ndarray) for column in columns.values()):
            self._memory.require(count * NUMBER_BYTES, "the numbers of the rows")
        return Rows(columns, {}, self._selected(selection, first, count))

    def encoding(self) -> Encoding:
        """Return the encoding in the program, or else that of its own file; raise DataError if there is none."""
        from runtime.rows.encoding.encoding import Encoding  # few runs have tables: start-up time

        if (stored := Encoding.of_program(self._program)) is not None:
            return stored
        names = matching(self._program.data.file, [file.path for file in self._program.files]) if self.exists else []
        if not names:
            what = f"the program {self._program.name!r} has no rows that say how values become numbers"
            raise DataError(f"{what}; pack them by compiler data pack, and name the file by program.data")
        file = self._folder / names[0]
        with verified(self._program, self._folder, names[0]) as reader:
            metadata = metadata_of(file, reader)
        return Encoding.of_metadata(file, metadata)

    @property
    def has_images(self) -> bool:
        """True if rows were packed from a folder of images, and not from a table."""
        return '"images":' in self._program.data.encoding  # in a name, quotes are escaped

    @property
    def is_encoded(self) -> bool:
        """True if the program knows how the values of a table become its rows.

        The rows of a text encoder are codes, of which the encoding has the labels alone.
        """
        if not self._program.data.encoding:
            return False
        from runtime.language.model import ENCODER_KEY  # few programs have encodings: start-up time

        return not any(text.key == ENCODER_KEY for text in self._program.model)

    def _split(self, name: str) -> pb.SplitDesc | None:
        splits = {split.name: split for split in self._program.data.splits}
        if name in splits:
            return splits[name]
        if name == "train":  # the default split for training when the program has no splits
            return None
        none = f"; its rows are named by program.data(…, splits={{{name!r}: 'KEY'}})"
        hint = closest(name, splits) or (f"; its splits are: {', '.join(splits)}" if splits else none)
        raise UsageError(f"the data has no split {name!r}{hint}")

    def _column(self, feed: Feed, key: str) -> Column:
        if is_ragged_key(self._columns.by_key, key):
            return self._ragged_column(feed, key)
        require_keys(self._file, [key], self._columns.by_key)
        column = self._columns.by_key[key]
        shape = feed.type.static_shape
        found = _type(column)
        if not feed.by_row:
            raise DataError(f"the column {key!r} gives rows, and the feed {feed.name!r} is {feed.type} for all rows")
        fits = len(column.shape) == len(shape) and column.shape[1:] == shape[1:]
        if fits and is_cast(found.dtype, feed.type.dtype):
            return self._cast_column(key, column, feed.type.dtype)
        if found.dtype != feed.type.dtype or not fits:
            wanted = TensorType(feed.type.dtype, ("rows", *shape[1:]))
            can_cast = fits and {found.dtype, wanted.dtype} <= REALS | INTEGERS and wanted.dtype not in HALVES
            cast = f"; cast it to {wanted.dtype} before it is written" if can_cast else ""
            raise DataError(f"{self._file}: {key!r} is {found}, the feed {feed.name!r} is {wanted}{cast}")
        return column

    def _ragged_column(self, feed: Feed, key: str) -> Column:
        """Return a column of unequal rows, or the lengths or the mask of one, each of which is built once."""
        from runtime.rows.ragged_data import ragged_column  # few runs need it: start-up time
        from runtime.rows.ragged_inputs import derived

        by_key = self._columns.by_key
        base = key if key + OFFSETS in by_key else base_of(key)
        if base not in self._ragged:
            self._ragged[base] = ragged_column(self._file, base, self._columns)
        column = self._ragged[base]
        if key != base:
            return derived(key, column, feed)
        shape = feed.type.static_shape
        if not feed.by_row or len(column.shape) != len(shape) or column.shape[2:] != shape[2:]:
            found = TensorType(array_type(np.empty(0, column.dtype)).dtype, ("rows", "length", *column.shape[2:]))
            raise DataError(f"{self._file}: {key!r} is {found}, the feed {feed.name!r} is {feed.type}")
        if array_type(np.empty(0, column.dtype)).dtype != feed.type.dtype:
            found = array_type(np.empty(0, column.dtype)).dtype
            raise DataError(f"{self._file}: {key!r} has elements of {found}, the feed {feed.name!r} is {feed.type}")
        return column

    def _cast_column(self, key: str, column: FileColumn, dtype: str) -> FileColumn:
        if key not in self._cast:
            say_cast(f"{self._file}: {key!r}", _type(column).dtype)
            self._cast[key] = self._rounded(key, column, numpy_dtype(dtype))
        return self._cast[key]

    def _rounded(self, key: str, column: FileColumn, dtype: np.dtype[np.generic]) -> FileColumn:
        if isinstance(column, StoredColumn):
            return column.cast(dtype)
        self._memory.take(column.size * dtype.itemsize, f"the array {key!r}")
        rounded = np.empty(column.shape, dtype)
        self._memory.note(rounded)
        cast_rows(key, column, rounded)
        return rounded

    def _selected(self, split: pb.SplitDesc | None, first: str, count: int) -> Order:
        order: Order = Span(0, count)
        if split is not None and split.WhichOneof("selection") == "key":
            order = self._numbers(split, first, count)
        elif split is not None:
            rows = split.rows
            if rows.stop > count:
                raise DataError(f"{self._file}: the split {split.name!r} ends at row {rows.stop}, there are {count}")
            order = Span(rows.start, len(range(rows.start, rows.stop or count, rows.stride)), rows.stride)
        if not len(order):
            what = "there are no rows" if split is None else f"the split {split.name!r} has no rows"
            raise DataError(f"{self._file}: {what}")
        return order

    def _numbers(self, split: pb.SplitDesc, first: str, total: int) -> Order:
        """Return the order of a split's rows by a key.

        The numbers of each file count its own, and `first` is a key of rows.
        """
        column = self._columns.by_key[split.key]
        if column.dtype != np.int64 or len(column.shape) != 1:
            raise DataError(
                f"{self._file}: {split.key!r} is {_type(column)}, the row numbers of a split are int64[rows]"
            )
        rows = [lengths[first] for lengths in self._columns.lengths] if not self._ragged else [total]
        shifts = [0, *accumulate(rows)][:-1]
        own = StoredNumbers(column, [0] * len(rows)) if isinstance(column, StoredColumn) else Listed(column)
        start = 0
        for length, count in zip([lengths[split.key] for lengths in self._columns.lengths], rows, strict=True):
            for at in range(start, start + length, _CHECKED):
                self._require_there(split, own.numbers(at, min(_CHECKED, start + length - at)), count)
            start += length
        if isinstance(column, StoredColumn):
            return StoredNumbers(column, shifts)
        if len(rows) == 1:
            return own
        return Listed(column + np.repeat(shifts, [lengths[split.key] for lengths in self._columns.lengths]))

    def _require_there(self, split: pb.SplitDesc, numbers: Array, count: int) -> None:
        outside = numbers[(numbers < 0) | (numbers >= count)]
        if len(outside):
            raise DataError(f"{self._file}: the split {split.name!r} has row {outside[0]}, there are {count} rows")

    def _read(self, keys: Sequence[str], split: pb.SplitDesc | None) -> None:
        """Read the arrays of these keys, of the split and of the whole program in one pass."""
        keys = [*keys, split.key] if split is not None and split.WhichOneof("selection") == "key" else keys
        if all(key in self._columns.by_key or is_ragged_key(self._columns.by_key, key) for key in keys):
            return
        if self._is_table:
            self._columns = self._of_new_rows(keys)
            return
        desc = self._program.data
        also = {column.key for column in desc.columns} | {split.key for split in desc.splits if split.key}
        also |= {base + end for key in also for base in (key, base_of(key)) if base for end in ("", OFFSETS, PADDING)}
        there = [key for key in keys if not base_of(key)]
        self._columns = read_columns(self._files(), self._verified, there, also, self._memory)
        self._ragged = {}

    def warn_of_no_splits(self) -> None:
        """Log a warning if a run would train and evaluate on the same rows, those of a table without splits."""
        if self._is_table and self._program.data.splits:
            _log.warning(
                "%s has no splits, so the run trains on all of its rows and evaluates on the same ones, which says "
                "nothing of others; pack it with --split, or give a --fold",
                self._file,
            )

    @property
    def _is_table(self) -> bool:
        """Return True if the rows are all those of a table, or images, which have no splits."""
        return self.given is not None and (is_table(self.given) or are_images(self.given))

    def _of_new_rows(self, keys: Sequence[str]) -> Columns:
        """Return the rows of a table, or images, encoded as the program's own."""
        from runtime.rows.new_rows import arrays_of_images, arrays_of_table  # few runs have them: start-up time

        try:
            encoding = self.encoding()
        except DataError as error:
            raise DataError(f"{self._file}: a table is encoded as the program's own rows were; {error}") from None
        read = arrays_of_images if are_images(self._file) else arrays_of_table
        arrays = read(self._file, encoding, keys, self._memory)
        return Columns(dict(arrays), [{key: len(array) for key, array in arrays.items()}])

    def _files(self) -> list[Path]:
        if self.given is None:
            names = matching(self._program.data.file, [file.path for file in self._program.files])
            return [self._folder / name for name in names]
        return [self.given.parent / name for name in files_of(self.given.parent, self.given.name)]

    @contextmanager
    def _verified(self, file: Path) -> Generator[FileReader]:
        if self.given is not None:
            with unverified(file, self._memory) as reader:
                yield reader
            return
        with verified(self._program, self._folder, file.relative_to(self._folder).as_posix(), self._memory) as reader:
            yield reader


def _type(column: FileColumn) -> TensorType:
    return TensorType(array_type(np.empty(0, column.dtype)).dtype, column.shape)

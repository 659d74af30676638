"""The program's own rows: columns and splits of its data file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.spelling import closest
from runtime.dtypes import Array, array_type
from runtime.entries import BoundEntry, Feed
from runtime.errors import DataError, UsageError
from runtime.files.program_files import verified
from runtime.files.tensor_files import read_arrays, unverified
from runtime.memory_limit import NO_LIMIT, MemoryLimit
from runtime.rows.rows import NUMBER_BYTES, Rows, common_length

OTHER_FORMS: Final = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".parquet", ".npy", ".pkl", ".pt", ".h5", ".xlsx")
"""Of files that people have rows in; what else is called otherwise may be a safetensors file."""


class Data:
    """What a program says of its rows, and the arrays that were read so far; nothing is read before it is needed."""

    def __init__(
        self, program: pb.ProgramDesc, folder: Path, file: Path | None = None, memory: MemoryLimit = NO_LIMIT
    ) -> None:
        """`file` takes the place of the program's own data file, and may be any file with the same keys."""
        if file is not None and file.suffix.lower() in OTHER_FORMS:
            raise DataError(
                f"{file}: rows are read from .safetensors and .npz files, whose arrays are the columns; "
                "numpy.savez('rows.npz', x=x, label=label) writes one"
            )
        self._program = program
        self._folder = folder
        self._given = file
        self._memory = memory
        self._file: Path | None = None
        self._arrays: dict[str, Array] = {}

    @property
    def exists(self) -> bool:
        """Whether the program says where rows come from."""
        return self._program.HasField("data")

    def rows(self, bound: BoundEntry, split: str | None) -> Rows:
        """The rows of a split, or all of them, for the feeds of an entry.

        Raises UsageError if there is no such split, DataError if the file does not have what the program reads:
        missing or damaged, a key that is not there, another dtype or shape, rows that do not exist.
        """
        keys = {column.feed: column.key for column in self._program.data.columns}
        for feed in bound.feeds.values():
            if feed.name not in keys:
                raise DataError(f"entry {bound.name!r} reads the feed {feed.name!r}, which no column of the data gives")
        selection = self._split(split) if split is not None else None
        self._read([keys[name] for name in bound.feeds], selection)
        columns = {feed.name: self._column(feed, keys[feed.name]) for feed in bound.feeds.values()}
        count = common_length(columns, "column", 0)
        return Rows(columns, {}, self._selected(selection, count))

    def _split(self, name: str) -> pb.SplitDesc | None:
        splits = {split.name: split for split in self._program.data.splits}
        if name in splits:
            return splits[name]
        if name == "train":  # what a run trains on when the program makes no difference between rows
            return None
        hint = closest(name, splits) or f"; its splits are: {', '.join(splits) or 'none'}"
        raise UsageError(f"the data has no split {name!r}{hint}")

    def _column(self, feed: Feed, key: str) -> Array:
        array = self._arrays[key]
        shape = feed.type.static_shape
        found = array_type(array)
        if not feed.by_row:
            raise DataError(f"the column {key!r} gives rows, and the feed {feed.name!r} is {feed.type} for all rows")
        if found.dtype != feed.type.dtype or array.ndim != len(shape) or array.shape[1:] != shape[1:]:
            wanted = TensorType(feed.type.dtype, ("rows", *shape[1:]))
            raise DataError(f"{self._file}: {key!r} is {found}, the feed {feed.name!r} is {wanted}")
        return array

    def _selected(self, split: pb.SplitDesc | None, count: int) -> Array:
        self._memory.require(count * NUMBER_BYTES, "the numbers of the rows")
        if split is None:
            numbers = np.arange(count)
        elif split.WhichOneof("selection") == "key":
            numbers = self._numbers(split, count)
        else:
            rows = split.rows
            if rows.stop > count:
                raise DataError(f"{self._file}: the split {split.name!r} ends at row {rows.stop}, there are {count}")
            numbers = np.arange(rows.start, rows.stop or count, rows.stride)
        self._memory.take_for(numbers, numbers.nbytes, "the numbers of the rows")
        if not len(numbers):
            raise DataError(f"{self._file}: the split {split.name if split else 'train'!r} has no rows")
        return numbers

    def _numbers(self, split: pb.SplitDesc, count: int) -> Array:
        numbers = self._arrays[split.key]
        if numbers.dtype != np.int64 or numbers.ndim != 1:
            found = array_type(numbers)
            raise DataError(f"{self._file}: {split.key!r} is {found}, the row numbers of a split are int64[rows]")
        outside = numbers[(numbers < 0) | (numbers >= count)]
        if len(outside):
            raise DataError(f"{self._file}: the split {split.name!r} has row {outside[0]}, there are {count} rows")
        return numbers

    def _read(self, keys: Sequence[str], split: pb.SplitDesc | None) -> None:
        """Have the arrays of these keys and of the split, and with them all that the program names: one reading."""
        keys = [*keys, split.key] if split is not None and split.WhichOneof("selection") == "key" else keys
        if all(key in self._arrays for key in keys):
            return
        desc = self._program.data
        also = {column.key for column in desc.columns} | {split.key for split in desc.splits if split.key}
        self._file = self._given or self._folder / desc.file
        source = (
            unverified(self._given, self._memory)
            if self._given
            else verified(self._program, self._folder, desc.file, self._memory)
        )
        with source as reader:
            arrays = read_arrays(self._file, reader, keys, also)
        self._arrays = arrays

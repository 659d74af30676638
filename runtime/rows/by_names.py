"""Rows of a file for a program that describes none: each feed reads the array of its name."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from prograd_proto import program_pb2 as pb
from prograd_proto.files import copy_of
from prograd_proto.states import trains

SPLIT: Final = "train"
"""The split that has all rows."""


def with_rows_by_names(program: pb.ProgramDesc, file: Path) -> pb.ProgramDesc:
    """Return a copy of a program that trains for an epoch on all rows of a file, shuffled; a column for each feed.

    Raises nothing: a feed without an array is an error when the rows are read.
    """
    made = copy_of(program)
    made.data.file = file.name
    made.data.format = pb.DATA_FORMAT_NPZ if file.suffix == ".npz" else pb.DATA_FORMAT_SAFETENSORS
    made.data.shuffle, made.data.remainder = True, pb.REMAINDER_DROP
    made.data.splits.add(name=SPLIT).rows.SetInParent()
    made.data.splits[0].rows.stride = 1
    entries = [entry for entry in program.entries if trains(program, program.blocks[entry.source_block])]
    feeds = {p.feed: None for entry in entries for p in program.blocks[entry.source_block].parameters if p.feed}
    for feed in feeds:
        made.data.columns.add(feed=feed, key=feed)
    if not any(each.path == file.name for each in made.files):
        made.files.add(path=file.name, bytes=0, sha256=bytes(32))  # of a file that is given, neither is compared
    if entries and not made.HasField("run"):
        made.run.entry, made.run.epochs, made.run.split = entries[0].name, 1, SPLIT
    return made

"""The names of classes, from the encoding of a program's rows."""

from __future__ import annotations

from prograd_proto import program_pb2 as pb
from runtime.rows.encoding.encoding import Encoding


def class_names(program: pb.ProgramDesc, count: int) -> list[str] | None:
    """Return the names of `count` classes; None unless exactly one column of the encoding has this many.

    Labels come first: the columns that the training entry reads, and another entry does not.

    Raises ProgramError if the encoding in the program is damaged.
    """
    encoding = Encoding.of_program(program)
    if encoding is None:
        return None
    fitting = {
        name: tuple(map(str, column.values))
        for name, column in encoding.columns.items()
        if column.kind == "class" and len(column.values) == count
    }
    labels = _labels(program)
    found = {fitting[name] for name in fitting if name in labels} or set(fitting.values())
    return list(found.pop()) if len(found) == 1 else None


def _labels(program: pb.ProgramDesc) -> set[str]:
    keys = {column.feed: column.key for column in program.data.columns}
    read = {
        entry.name: {
            keys.get(p.feed, p.feed) for p in program.blocks[entry.source_block].parameters if p.HasField("feed")
        }
        for entry in program.entries
    }
    trained = read.get(program.run.entry or "train", set[str]())
    return {key for key in trained if any(key not in others for others in read.values())}

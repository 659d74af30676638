"""The columns and splits that a program names are in its data file, which lies there when the program is saved."""

from __future__ import annotations

from pathlib import Path

from compiler.errors import CompileError
from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.file_patterns import files_of
from prograd_proto.tensor_types import type_of


def require_columns(program: pb.ProgramDesc, folder: Path) -> None:
    """Raise CompileError for a key that the data file lacks, or whose rows are not of the shape of the feed.

    Only the header is read: what the elements are is looked at when the program runs. A .npz file has none.
    """
    data = program.data
    if data.format != pb.DATA_FORMAT_SAFETENSORS:
        return
    for name in data_files(program, folder):
        if (folder / name).exists():
            _require_columns(program, folder / name)


def data_files(program: pb.ProgramDesc, folder: Path) -> list[str]:
    """The files that the program's rows are in, by their paths in the folder; none if it reads no rows."""
    if not program.data.file:
        return []
    return files_of(folder, program.data.file)


def _require_columns(program: pb.ProgramDesc, path: Path) -> None:
    data = program.data
    from runtime.errors import DataError
    from runtime.files.tensor_files import shapes_of  # brings NumPy

    fed = _fed(program)
    keys = {column.feed: column.key for column in data.columns if column.feed in fed}
    try:
        shapes = shapes_of(path, [*keys.values(), *(split.key for split in data.splits if split.key)])
    except DataError as error:
        raise CompileError(f"data: {error}") from None
    for feed, key in keys.items():
        rows, wanted = shapes[key], fed[feed].shape
        if len(rows) != len(wanted) or rows[1:] != wanted[1:]:
            raise CompileError(
                f"data: {path}: {key!r} has the shape {list(rows)}, and the input {feed!r} is {fed[feed]}"
            )


def _fed(program: pb.ProgramDesc) -> dict[str, TensorType]:
    """The feeds of the entries that executing runs over the data; what others are fed is given by hand."""
    named = {program.run.entry or "train", program.run.evaluate.entry}
    found: dict[str, TensorType] = {}
    for entry in program.entries:
        if entry.name not in named or not entry.bindings:
            continue
        block = program.blocks[entry.bindings[0].block]
        types = {tensor.name: type_of(tensor) for tensor in block.tensors}
        found |= {p.feed: types[p.tensor] for p in block.parameters if p.WhichOneof("source") == "feed"}
    return found

"""Checks of the columns and splits that a program names, against the data file beside the saved program."""

from __future__ import annotations

from pathlib import Path

from compiler.errors import CompileError
from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.file_names import files_of
from prograd_proto.ragged_names import OFFSETS, base_of
from prograd_proto.tensor_types import type_of


def require_columns(program: pb.ProgramDesc, folder: Path) -> None:
    """Raise CompileError for a key that the data file lacks, or whose rows do not fit the shape of the feed.

    Only the header is read; the run checks the elements. A .npz file has no header.
    """
    data = program.data
    if data.format != pb.DATA_FORMAT_SAFETENSORS:
        return
    for name in data_files(program, folder):
        if (folder / name).exists():
            _require_columns(program, folder / name)


def keep_encoding(program: pb.ProgramDesc, folder: Path) -> None:
    """Store the encoding of packed rows in the program, so that tables are encoded without the file of the rows."""
    if program.data.format != pb.DATA_FORMAT_SAFETENSORS:
        return
    program.data.ClearField("encoding")
    from runtime.errors import DataError
    from runtime.files.tensor_files import read_metadata
    from runtime.rows.encoding.encoding import KEY  # brings NumPy

    first = next((folder / name for name in data_files(program, folder) if (folder / name).exists()), None)
    try:
        encoding = "" if first is None else read_metadata(first).get(KEY, "")
    except DataError as error:
        raise CompileError(f"data: {error}") from None
    if encoding:
        program.data.encoding = encoding


def data_files(program: pb.ProgramDesc, folder: Path) -> list[str]:
    """Return the files with the program's rows, by their paths in the folder; none if it reads no rows."""
    if not program.data.file:
        return []
    return files_of(folder, program.data.file)


def unnamed_input(program: pb.ProgramDesc, path: Path) -> str:
    """Return a clause about the first input whose own name is no key of a data file; "" if there is none."""
    from runtime.errors import DataError
    from runtime.files.tensor_files import shapes_of  # brings NumPy

    own = [column.key for column in program.data.columns if column.feed == column.key and not base_of(column.key)]
    try:
        absent = next((key for key in own if not shapes_of(path, [], [key])), None)
    except DataError:  # the file cannot be read, which the caller says
        absent = None
    return "" if absent is None else f"; name the key of the input {absent!r} by columns={{{absent!r}: 'KEY'}}"


def _require_columns(program: pb.ProgramDesc, path: Path) -> None:
    data = program.data
    from runtime.errors import DataError
    from runtime.files.tensor_files import shapes_of  # brings NumPy

    fed = _fed(program)
    keys = {column.feed: column.key for column in data.columns if column.feed in fed}
    bases = {base for key in keys.values() for base in (key, base_of(key)) if base}
    try:
        ragged = {key.removesuffix(OFFSETS) for key in shapes_of(path, [], {base + OFFSETS for base in bases})}
        follow = {key for key in keys.values() if base_of(key) in ragged and not shapes_of(path, [], [key])}
        there = [key for key in keys.values() if key not in follow]
        shapes = shapes_of(path, [*there, *(split.key for split in data.splits if split.key)])
    except DataError as error:
        raise CompileError(f"data: {error}{unnamed_input(program, path)}") from None
    for feed, key in keys.items():
        if key in follow:
            continue
        found, inner = shapes[key], 2 if key in ragged else 1  # axes besides those of a row's elements
        if not any(len(found) - 1 == len(type.shape) - inner and found[1:] == type.shape[inner:] for type in fed[feed]):
            raise CompileError(
                f"data: {path}: {key!r} has the shape {list(found)}, and the input {feed!r} is {fed[feed][0]}"
            )


def _fed(program: pb.ProgramDesc) -> dict[str, list[TensorType]]:
    """Return the feeds of the entries that a run applies to the data, of all lengths."""
    named = {program.run.entry or "train", program.run.evaluate.entry}
    found: dict[str, list[TensorType]] = {}
    for entry in program.entries:
        for binding in entry.bindings if entry.name in named else ():
            block = program.blocks[binding.block]
            types = {tensor.name: type_of(tensor) for tensor in block.tensors}
            for parameter in block.parameters:
                if parameter.WhichOneof("source") == "feed":
                    found.setdefault(parameter.feed, []).append(types[parameter.tensor])
    return found

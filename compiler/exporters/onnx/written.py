"""A model as a file: whole or not at all, with large weights in a file beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO, Final

from compiler.frontends.onnx.reading import package
from runtime.errors import UsageError
from runtime.files.output import write_output

MAX_INLINE_BYTES: Final = 3 << 29
"""Bytes of weights within the file, 1.5 GiB; protobuf has a limit of 2 GiB."""

MIN_EXTERNAL_BYTES: Final = 1024
"""Smaller tensors stay in the file of the model, because readers want shapes there."""


def require_writable(path: str | os.PathLike[str], *, force: bool) -> None:
    """Raise UsageError for a file that exists, before anything is computed."""
    if os.path.lexists(path) and not force:
        raise UsageError(f"{os.fspath(path)}: the file exists; force=True, or --force, replaces it")


def write_model(model: Any, path: str | os.PathLike[str], *, external: int | None, force: bool) -> list[Path]:
    """Write a model; return the files that were written.

    Raises UsageError if a file exists and not `force`, DataError if it cannot be written.
    """
    path = Path(path)
    limit = MAX_INLINE_BYTES if external is None else external
    if sum(len(tensor.raw_data) for tensor in model.graph.initializer) <= limit:
        write_output(path, model.SerializeToString(deterministic=True), force=force)
        return [path]
    beside = path.with_name(f"{path.name}.data")
    apart = package().ModelProto()
    apart.CopyFrom(model)
    arrays: list[bytes] = []
    offset = 0
    for tensor in apart.graph.initializer:
        if len(tensor.raw_data) < MIN_EXTERNAL_BYTES:
            continue
        data = tensor.raw_data
        offset += -offset % 64
        arrays.append(data)
        tensor.ClearField("raw_data")
        tensor.data_location = package().TensorProto.EXTERNAL
        for key, value in (("location", beside.name), ("offset", offset), ("length", len(data))):
            tensor.external_data.add(key=key, value=str(value))
        offset += len(data)

    def write(file: BinaryIO) -> None:
        written = 0
        for data in arrays:
            gap = -written % 64
            file.write(b"\0" * gap)
            file.write(data)
            written += gap + len(data)

    write_output(beside, write, force=force)
    write_output(path, apart.SerializeToString(deterministic=True), force=force)
    return [beside, path]

"""Initial values that an import brought: written beside a program when it is saved."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb

Arrays = Mapping[str, Mapping[str, Any]]
"""By the path of a file beside the program and the key in it, an array of NumPy."""


def write_arrays(arrays: Arrays, folder: Path, *, force: bool) -> None:
    """Write each file of initial values, unless one of the same content is there.

    Raises ProgramError if a file of other content is there and `force` is False.
    """
    from runtime.files.tensor_files import has_safetensors, write_safetensors  # brings NumPy; few programs have arrays

    for name, tensors in arrays.items():
        path = folder / name
        if path.exists() and has_safetensors(path, tensors, {}):
            continue
        if path.exists() and not force:
            raise ProgramError(
                f"{path}: the program's initial values would replace a file of other content; force=True"
            )
        write_safetensors(path, tensors, {}, force=force)


def file_of_arrays(name: str, tensors: Mapping[str, Any]) -> pb.FileDesc:
    """Return size and hash of the file that `write_arrays` would write."""
    from runtime.files.tensor_files import safetensors_parts

    digest, size = hashlib.sha256(), 0
    for part in safetensors_parts(tensors, {}):
        digest.update(part)
        size += len(part)
    return pb.FileDesc(path=name, bytes=size, sha256=digest.digest())

"""Initial values that an import brought: written beside a program when it is saved."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from prograd_proto import ProgramError, TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.files import load


class Unread(NamedTuple):
    """An array that stays in its file, and is read whenever it is needed.

    Attributes:
        type: type of the array.
        read: function that returns it.
    """

    type: TensorType
    read: Callable[[], Any]


def read(array: Any) -> Any:
    """Return an array, which may be unread."""
    return array.read() if isinstance(array, Unread) else array


class Brought(Mapping[str, Any]):
    """The arrays of a file by key, each an array of NumPy that is read when it is asked for."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self._arrays = arrays

    def __getitem__(self, key: str) -> Any:
        return read(self._arrays[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def types(self) -> dict[str, TensorType]:
        """Return the type of each array, of which none is read."""
        from runtime.files.tensor_files import types_of  # brings NumPy; few programs have arrays

        unread = {key: array.type for key, array in self._arrays.items() if isinstance(array, Unread)}
        return unread | types_of({key: array for key, array in self._arrays.items() if key not in unread})


Arrays = Mapping[str, Brought]
"""The arrays that programs bring, by the path of a file beside the program."""


def write_arrays(arrays: Arrays, program: Path, *, force: bool) -> None:
    """Write each file of initial values beside a program, unless one of the same content is there.

    Raises ProgramError, and writes no file, if a file of other content exists and `force` is False, or the program at
    that path does not name that file.
    """
    from runtime.files.tensor_files import has_safetensors, write_safetensors  # brings NumPy; few programs have arrays

    paths = {name: program.parent / name for name in arrays}
    changed = [
        name
        for name, path in paths.items()
        if not (path.exists() and has_safetensors(path, arrays[name], {}, arrays[name].types()))
    ]
    own = _files_of(program) if changed else set[str]()
    for name in changed:
        if not paths[name].exists():
            continue
        if name not in own:
            raise ProgramError(
                f"{paths[name]}: the program's initial values would replace a file of other content, which is not of "
                f"{program.name}; give the program another name, or remove the file"
            )
        if not force:
            raise ProgramError(
                f"{paths[name]}: the program's initial values would replace a file of other content; force=True"
            )
    for name in changed:
        write_safetensors(paths[name], arrays[name], {}, force=force, types=arrays[name].types())


def _files_of(program: Path) -> set[str]:
    """Return the files that the program at a path names; none if there is no program."""
    try:
        return {file.path for file in load(program).files}
    except ProgramError:
        return set()


def file_of_arrays(name: str, tensors: Brought) -> pb.FileDesc:
    """Return size and hash of the file that `write_arrays` would write."""
    from runtime.files.tensor_files import safetensors_parts

    digest, size = hashlib.sha256(), 0
    for part in safetensors_parts(tensors, {}, tensors.types()):
        digest.update(part)
        size += len(part)
    return pb.FileDesc(path=name, bytes=size, sha256=digest.digest())

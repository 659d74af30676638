"""The weights of a folder: tensors of its safetensors files, which stay where they are as far as they can."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from weakref import finalize

from compiler.build.brought_arrays import Unread
from compiler.errors import CompileError
from compiler.frontends.language_models.config_keys import read_json
from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from runtime.conversion import converted
from runtime.errors import ExecutionError
from runtime.files.safetensors_file import WORDS, read_header, tensors_one_by_one
from runtime.files.tensor_files import unreadable, unverified

INDEX: Final = "model.safetensors.index.json"
ALONE: Final = "model.safetensors"

_DTYPES: Final = {word: name for name, word in WORDS.items() if name in ("float32", "float16", "bfloat16")}


class Tensor(NamedTuple):
    """A tensor of a file: its dtype as programs name it, and its shape."""

    file: str
    dtype: str
    shape: tuple[int, ...]


class Weights:
    """The tensors of a folder by name.

    Attributes:
        folder: the folder.
        tensors: where each tensor is.
        config: the file that determines the shapes of tensors, for messages.
    """

    config = "config.json"

    def __init__(self, folder: Path) -> None:
        """Read the headers; raise CompileError for a folder without weights, or with damaged ones."""
        self.folder = folder
        self._shards = {file: _Shard(folder, file) for file in _files(folder)}
        self.tensors = {name: tensor for shard in self._shards.values() for name, tensor in shard.tensors.items()}

    def require(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Return a tensor; raise CompileError if it is missing or has another shape or a dtype without a use."""
        found = self.tensors.get(name)
        if found is None:
            raise CompileError(f"{self.folder}: the weights lack {name}, which {self.config} asks for")
        if found.shape != shape:
            raise CompileError(
                f"{self.where(found)}: {name} has the shape {list(found.shape)}; {self.config} asks for {list(shape)}"
            )
        return found

    def where(self, tensor: Tensor) -> str:
        """Return the file of a tensor, for messages."""
        return str(self.folder / tensor.file if self.folder.is_dir() else self.folder)

    def array(self, name: str) -> Any:
        """Return a tensor as float32."""
        array = self._shards[self.tensors[name].file].array(name)
        return array if array.dtype == "float32" else converted(array, "float32")

    def unread(self, name: str, *, trained: bool) -> Unread:
        """Return a tensor as it is copied or trained: as float32."""
        del trained
        return Unread(TensorType("float32", self.tensors[name].shape), partial(self.array, name))

    def coded(self, name: str) -> tuple[Unread, Unread]:
        """Return the codes and scales of a tensor that is stored in blocks; folders have none."""
        raise CompileError(f"{self.folder}: {name} has no blocks")


class _Shard:
    """A safetensors file that stays open; its tensors are read when they are asked for.

    Attributes:
        tensors: its tensors by name.
    """

    def __init__(self, folder: Path, file: str) -> None:
        """Open the file; raise CompileError for a damaged one."""
        self._path, stack = folder / file, ExitStack()
        finalize(self, stack.close)
        try:
            self._reader = stack.enter_context(unverified(self._path))
            self._header = read_header(self._reader)
        except ExecutionError as error:
            raise CompileError(str(error)) from None
        except (OSError, ValueError) as error:
            raise CompileError(f"{self._path}: the file is damaged: {error}") from None
        self._at = 0  # bytes after the header that have been read
        self.tensors = {
            name: Tensor(file, _DTYPES.get(extent.word, extent.word), tuple(extent.shape))
            for name, extent in self._header.extents.items()
        }

    def array(self, name: str) -> Any:
        """Return a tensor as it is stored; raise CompileError if the file ends before."""
        try:
            self._reader.skip(-self._at)
            [(_, array)] = tensors_one_by_one(self._reader, self._header, {name})
        except (OSError, ValueError) as error:
            raise CompileError(str(unreadable(self._path, "safetensors", error))) from None
        self._at = self._header.extents[name].end
        return array


def is_meant(name: str, patterns: Sequence[str]) -> bool:
    """Return True for a weight that a pattern matches, by its name or by the beginning of it up to a dot."""
    return any(fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*") for pattern in patterns)


def meant(states: Mapping[str, pb.StateDesc], patterns: Sequence[str]) -> list[str]:
    """Return the parameters of a program that a pattern matches, as `is_meant` has it."""
    return [
        name for name, state in states.items() if state.kind == pb.STATE_KIND_PARAMETER and is_meant(name, patterns)
    ]


def path_from(program: Path, folder: Path) -> str | None:
    """Return the path of a folder relative to the program's; None if it lies outside of it."""
    here, there = os.path.realpath(program.parent), os.path.realpath(folder)
    inside = os.path.relpath(there, here)
    return None if inside.split(os.sep)[0] == os.pardir else Path(inside).as_posix()


def _files(folder: Path) -> list[str]:
    """Return the names of the files of weights."""
    if not folder.is_dir():
        what = "this is a file" if folder.exists() else "there is no such folder"
        raise CompileError(f"{folder}: {what}; name a folder with config.json and model.safetensors")
    if (folder / ALONE).is_file():
        return [ALONE]
    if not (folder / INDEX).is_file():
        raise CompileError(f"{folder}: the folder has neither {ALONE} nor {INDEX}; other forms of weights are not read")
    places = read_json(folder / INDEX).get("weight_map")
    if not isinstance(places, Mapping) or not all(isinstance(file, str) for file in places.values()):
        raise CompileError(f"{folder / INDEX}: weight_map does not name a file for each tensor")
    files = sorted(set(places.values()))
    for file in files:
        if os.path.basename(file) != file:
            raise CompileError(f"{folder / INDEX}: weight_map names {file!r}, which is not in this folder")
        if not (folder / file).is_file():
            raise CompileError(f"{folder / file}: the file is missing, and {INDEX} names it")
    return files

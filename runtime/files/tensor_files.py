"""Arrays in files: safetensors to write and read, npy to write, npz to read."""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, BinaryIO, Final, cast

import numpy as np

from prograd_proto import TensorType
from prograd_proto.regular_files import open_regular
from prograd_proto.spelling import closest_or_first
from prograd_proto.wording import as_asked
from runtime.dtypes import Array, array_type, as_little
from runtime.errors import Damaged, DataError, ExecutionError
from runtime.files.file_reader import FileReader
from runtime.files.output import write_output
from runtime.files.safetensors_file import read_header, read_tensors, safetensors_header, tensors_one_by_one
from runtime.memory.limit import NO_LIMIT, MemoryLimit

if TYPE_CHECKING:
    from zipfile import ZipFile  # slow to import

PART_BYTES: Final = 1 << 20
"""Bytes of an array that are compared with a file at a time."""

MAX_ARRAY_BYTES: Final = 1 << 36
"""Upper bound in bytes on an array that is read, 64 GiB: a compressed file may claim any size."""


def write_npy(path: str | os.PathLike[str], array: Array, *, force: bool) -> None:
    """Write an array as a .npy file; for errors see `write_output`."""

    def write(stream: BinaryIO) -> None:
        # NumPy writes to a real file through C, whose errors have no number: a full disk would look like any failure.
        pipe = cast(BinaryIO, SimpleNamespace(write=stream.write))
        np.lib.format.write_array(pipe, array, allow_pickle=False)

    write_output(path, write, force=force)


def write_safetensors(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Array],
    metadata: Mapping[str, str],
    *,
    force: bool,
    types: Mapping[str, TensorType] | None = None,
) -> None:
    """Write arrays and one line of metadata per key, whole or not at all; equal arguments give equal bytes.

    Nothing is copied. With their `types`, each array is asked for once, and only while it is written. For errors see
    `write_output`.
    """

    def write(file: BinaryIO) -> None:
        for part in safetensors_parts(tensors, metadata, types):
            file.write(part)

    write_output(path, write, force=force)


def safetensors_parts(
    tensors: Mapping[str, Array], metadata: Mapping[str, str], types: Mapping[str, TensorType] | None
) -> Generator[bytes | memoryview]:
    """Yield the bytes of a safetensors file: its header, then each array."""
    names, header = safetensors_header(types_of(tensors) if types is None else types, metadata)
    yield header
    for name in names:
        yield as_little(tensors[name]).reshape(-1).view(np.uint8).data


def has_safetensors(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Array],
    metadata: Mapping[str, str],
    types: Mapping[str, TensorType] | None = None,
) -> bool:
    """Return True if a file has the content that `write_safetensors` would write; False if it cannot be read."""
    names, header = safetensors_header(types_of(tensors) if types is None else types, metadata)
    try:
        with open_regular(path) as stream:
            if stream.read(len(header)) != header:
                return False
            arrays = (as_little(tensors[name]).reshape(-1).view(np.uint8).data for name in names)
            parts = (array[i : i + PART_BYTES] for array in arrays for i in range(0, len(array), PART_BYTES))
            return all(stream.read(len(part)) == bytes(part) for part in parts) and not stream.read(1)
    except OSError:
        return False


def types_of(tensors: Mapping[str, Array]) -> dict[str, TensorType]:
    """Return the type of each array."""
    return {name: array_type(array) for name, array in tensors.items()}


def read_safetensors(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """Return all tensors of a file, and its metadata.

    Raises Damaged if it is no safetensors file, DataError if it cannot be read.
    """
    with unverified(path) as reader:
        try:
            header = read_header(reader)
            return read_tensors(reader, header, set(header.extents)), header.metadata
        except (OSError, ValueError) as error:
            raise unreadable(path, "safetensors", error) from None


def read_metadata(path: Path) -> dict[str, str]:
    """Return the metadata of a safetensors file.

    Raises Damaged if it is no safetensors file, DataError if it cannot be read.
    """
    with unverified(path) as reader:
        return metadata_of(path, reader)


def metadata_of(path: Path, reader: FileReader) -> dict[str, str]:
    """Return the metadata of an open safetensors file, as `read_metadata` does."""
    try:
        return read_header(reader).metadata
    except (OSError, ValueError) as error:
        raise unreadable(path, "safetensors", error) from None


def read_arrays(
    path: Path,
    reader: FileReader,
    keys: Iterable[str],
    also: Iterable[str] = (),
    into: Mapping[str, Array] = MappingProxyType({}),
) -> dict[str, Array]:
    """Return arrays of a .npz or else safetensors file, row-major and in this machine's byte order.

    `keys` must exist, those of `also` may. Arrays of `into` may get the elements, as in `read_tensors`. Raises Damaged
    for a corrupt file. Raises DataError if a key is missing, an array is larger than `MAX_ARRAY_BYTES` or of a type
    that is not supported, or the file cannot be read.
    """
    form = "npz" if path.suffix == ".npz" else "safetensors"
    try:
        if form == "npz":
            return _from_npz(path, reader, keys, also)
        header = read_header(reader)
        require_keys(path, keys, header.extents)
        return read_tensors(reader, header, {*keys, *also}, into)
    except (OSError, ValueError) as error:
        raise unreadable(path, form, error) from None


def read_one_by_one(path: Path, reader: FileReader, keys: Collection[str]) -> Generator[tuple[str, Array]]:
    """Yield arrays and their keys in the order of the file, each when it is asked for; see `read_arrays`."""
    if path.suffix == ".npz":
        yield from read_arrays(path, reader, keys).items()
        return
    try:
        header = read_header(reader)
        require_keys(path, keys, header.extents)
        yield from tensors_one_by_one(reader, header, set(keys))
    except (OSError, ValueError) as error:
        raise unreadable(path, "safetensors", error) from None


@contextmanager
def unverified(path: Path, memory: MemoryLimit = NO_LIMIT) -> Generator[FileReader]:
    """Yield a reader of a file that has no hash to be compared with; raise DataError if it cannot be opened."""
    try:
        stream = open_regular(path)
    except OSError as error:
        raise unreadable(path, path.suffix[1:], error) from None
    with stream:
        yield FileReader(stream, memory=memory)


def shapes_of(path: Path, keys: Collection[str], also: Collection[str] = ()) -> dict[str, tuple[int, ...]]:
    """Return the shapes of arrays of a .npz or else safetensors file by key, and of those of `also` that exist.

    Raises DataError as `read_arrays` does.
    """
    with unverified(path) as reader:
        if path.suffix == ".npz":
            return {key: array.shape for key, array in read_arrays(path, reader, keys, also).items()}
        try:
            extents = read_header(reader).extents
        except (OSError, ValueError) as error:
            raise unreadable(path, "safetensors", error) from None
        require_keys(path, keys, extents)
        return {key: extents[key].shape for key in (*keys, *also) if key in extents}


def keys_of(path: Path) -> list[str]:
    """Return the names of all arrays of a .npz or else safetensors file; raise DataError as `read_arrays` does."""
    with unverified(path) as reader:
        try:
            if path.suffix != ".npz":
                return list(read_header(reader).extents)
            from io import BytesIO
            from zipfile import ZipFile

            with _parsing(), ZipFile(BytesIO(reader.rest())) as archive:
                return [name.removesuffix(".npy") for name in archive.namelist()]
        except (OSError, ValueError) as error:
            raise unreadable(path, path.suffix[1:] or "safetensors", error) from None


def read_npy(path: Path, memory: MemoryLimit = NO_LIMIT) -> Array:
    """Return the array of a .npy file; raise DataError if it cannot be read."""
    try:
        with open_regular(path) as file:
            return parse_npy(file, path.stat().st_size, memory, f"the array of {path}")
    except (OSError, ValueError) as error:
        raise unreadable(path, "npy", error) from None


def parse_npy(file: BinaryIO, size: int, memory: MemoryLimit = NO_LIMIT, what: str = "an array") -> Array:
    """Return the array of an open .npy file of `size` bytes; raise ValueError if it is not one."""
    with _parsing():
        memory.take(_claimed(file, size), what)
        file.seek(0)
        array = cast(Array, np.lib.format.read_array(file, allow_pickle=False))
    return np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)


def read_npz(path: Path, reader: FileReader) -> dict[str, Array]:
    """Return all arrays of a .npz file by name; raise Damaged unless it is whole and all members are arrays."""
    try:
        return _from_npz(path, reader, None, ())
    except (OSError, ValueError) as error:
        raise unreadable(path, "npz", error) from None


def _from_npz(path: Path, reader: FileReader, keys: Iterable[str] | None, also: Iterable[str]) -> dict[str, Array]:
    """Return the arrays of these keys, or all for None, and those of `also` that exist."""
    from io import BytesIO
    from zipfile import ZipFile

    with (
        _parsing(),
        reader.memory.lent(reader.nbytes, "the file of arrays"),
        ZipFile(BytesIO(reader.rest())) as archive,
    ):
        there = [name.removesuffix(".npy") for name in archive.namelist()]
        found: dict[str, Array] = {}
        for key in there if keys is None else keys:
            require_keys(path, [key], there)
            found[key] = _member(archive, key, reader.memory)
        more = [key for key in also if key in there and key not in found]
        return found | {key: _member(archive, key, reader.memory) for key in more}


@contextmanager
def _parsing() -> Generator[None]:
    """Turn every other exception of a parser into a ValueError: the bytes are untrusted.

    A zip file alone raises BadZipFile, EOFError, KeyError, NotImplementedError, RuntimeError if it is encrypted, and
    the errors of three compression methods. Python's own parser reads the header of an array, and also warns.
    """
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (ExecutionError, OSError, ValueError, MemoryError):
        raise
    except Exception as error:
        raise ValueError(str(error)) from None


def _member(archive: ZipFile, key: str, memory: MemoryLimit) -> Array:
    member = archive.getinfo(f"{key}.npy")
    with archive.open(member) as file:
        memory.take(_claimed(cast(BinaryIO, file), member.file_size), f"the array {key!r}")
    with archive.open(member) as file:
        array = cast(Array, np.lib.format.read_array(file, allow_pickle=False))
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)
    memory.note(array)
    return array


def require_keys(path: Path, keys: Iterable[str], there: Collection[str]) -> None:
    """Raise DataError unless all keys exist."""
    for key in keys:
        if key not in there:
            raise DataError(f"{path}: there is no key {key!r} in the file{closest_or_first(key, there)}")


def _claimed(file: BinaryIO, size: int) -> int:
    """Return the size of an array in bytes by its npy header.

    Raises ValueError unless header and elements together take `size` bytes and the array is not too large.
    """
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    if not all(type(extent) is int and extent >= 0 for extent in shape):
        raise ValueError(f"an array says that its shape is {shape}")
    nbytes = prod(shape) * dtype.itemsize
    if nbytes > MAX_ARRAY_BYTES:
        raise ValueError(f"an array of {nbytes} bytes is more than the {MAX_ARRAY_BYTES} that are read")
    if not dtype.hasobject and nbytes != size - file.tell():
        raise ValueError(f"an array says that it has {nbytes} bytes, and {size - file.tell()} are there")
    return nbytes


def unreadable(path: Path, form: str, error: Exception) -> DataError:
    """Return the error for a file that cannot be read; Damaged if it can be read but its content is wrong."""
    if isinstance(error, FileNotFoundError):
        return DataError(f"{path}: no such file")
    if isinstance(error, OSError):
        return DataError(f"{path}: this cannot be read as a {form} file: {error.strerror or error}")
    if path.suffix == ".pb":
        how = as_asked("--save", "run.save")
        return Damaged(f"{path}: this is a program by its name; states are {form} files, as {how} writes them")
    return Damaged(f"{path}: this cannot be read as a {form} file: {error or 'it ends too early'}")

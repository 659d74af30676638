"""Named arrays in files: safetensors to write and read, npz to read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, cast

import numpy as np
from safetensors import SafetensorError, safe_open

from prograd_proto.regular_files import open_regular
from prograd_proto.spelling import closest
from runtime.dtypes import array_type, as_little
from runtime.errors import DataError
from runtime.kernel import BFLOAT16, Array
from runtime.output import write_output

MAX_ARRAY_BYTES: Final = 1 << 36
"""The largest array that is read: 64 GiB. A compressed file may claim any size."""

_WORDS: Final = {
    "float32": "F32",
    "float64": "F64",
    "int32": "I32",
    "int64": "I64",
    "bool": "BOOL",
    "uint8": "U8",
    "float16": "F16",
    "bfloat16": "BF16",
}


class _Slice(Protocol):
    """What it gives for a tensor that is not read yet."""

    def get_dtype(self) -> str: ...


class _SafeOpen(Protocol):
    """What safetensors, which has no types, gives for an open file."""

    def keys(self) -> list[str]: ...
    def metadata(self) -> dict[str, str] | None: ...
    def get_slice(self, name: str) -> _Slice: ...
    def get_tensor(self, name: str) -> Array: ...
    def __enter__(self) -> _SafeOpen: ...
    def __exit__(self, *error: object) -> None: ...


def write_safetensors(
    path: str | os.PathLike[str], tensors: Mapping[str, Array], metadata: Mapping[str, str], *, force: bool
) -> None:
    """Write arrays and one line of metadata per key, whole or not at all; equal arguments give equal bytes.

    Big elements come first, then names in order, so every tensor is aligned to its elements. Nothing is copied.
    For errors see `write_output`.
    """
    from json import dumps

    names = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name in names:
        array = tensors[name]
        start, end = end, end + array.nbytes
        header[name] = {
            "dtype": _WORDS[array_type(array).dtype],
            "shape": list(array.shape),
            "data_offsets": [start, end],
        }
    text = dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)

    def write(file: BinaryIO) -> None:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            array = tensors[name]
            file.write(as_little(array).reshape(-1).view(np.uint8).data)

    write_output(path, write, force=force)


def read_safetensors(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """All tensors of a file, and its metadata. Raises DataError if it cannot be read."""
    try:
        with _opened(path) as file:
            return {name: _tensor(path, file, name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118 (it is no dict)
    except (OSError, SafetensorError, TypeError, ValueError) as error:  # TypeError: an element type that NumPy lacks
        raise DataError(_unreadable(path, "safetensors", error)) from None


def read_array(path: Path, key: str) -> Array:
    """The array `key` of a .npz or else safetensors file, row-major and in this machine's byte order.

    Raises DataError if the file or the array is missing, damaged, or larger than `MAX_ARRAY_BYTES`.
    """
    array = _from_npz(path, key) if path.suffix == ".npz" else _from_safetensors(path, key)
    return np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)


def read_npy(path: Path) -> Array:
    """The array of a .npy file. Raises DataError if it cannot be read."""
    try:
        with open_regular(path) as file:
            array = cast(Array, np.lib.format.read_array(file, allow_pickle=False))
    except (OSError, ValueError, EOFError, MemoryError) as error:
        raise DataError(_unreadable(path, "npy", error)) from None
    return np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)


def _from_safetensors(path: Path, key: str) -> Array:
    try:
        with _opened(path) as file:
            keys = file.keys()
            if key not in keys:
                raise DataError(f"{path}: there is no key {key!r} in the file{closest(key, keys)}")
            return _tensor(path, file, key)
    except (OSError, SafetensorError, TypeError, ValueError) as error:
        raise DataError(_unreadable(path, "safetensors", error)) from None


def _opened(path: Path) -> _SafeOpen:
    with open_regular(path):  # safetensors takes a path, and would wait for whoever writes into a pipe
        return cast(_SafeOpen, safe_open(path, "np"))


def _tensor(path: Path, file: _SafeOpen, name: str) -> Array:
    """A tensor of an open file, of bfloat16 by its place in the file: safetensors needs another package for it."""
    from json import loads

    if file.get_slice(name).get_dtype() != "BF16":
        return file.get_tensor(name)
    with open_regular(path) as stream:
        size = int.from_bytes(stream.read(8), "little")
        entry = loads(stream.read(size))[name]
        start, end = entry["data_offsets"]
        stream.seek(8 + size + start)
        bits = np.fromfile(stream, "<u2", (end - start) // 2)
    return bits.astype(np.uint16).view(BFLOAT16).reshape(entry["shape"])


def _from_npz(path: Path, key: str) -> Array:
    import zlib
    from zipfile import BadZipFile, ZipFile

    try:
        with open_regular(path) as stream, ZipFile(stream) as archive:
            keys = [name.removesuffix(".npy") for name in archive.namelist()]
            if key not in keys:
                raise DataError(f"{path}: there is no key {key!r} in the file{closest(key, keys)}")
            member = archive.getinfo(f"{key}.npy")
            with archive.open(member) as file:
                _check_claim(cast(BinaryIO, file), member.file_size)
            with archive.open(member) as file:
                return cast(Array, np.lib.format.read_array(file, allow_pickle=False))
    except (OSError, ValueError, EOFError, KeyError, BadZipFile, zlib.error, NotImplementedError) as error:
        raise DataError(_unreadable(path, "npz", error)) from None


def _check_claim(file: BinaryIO, size: int) -> None:
    """Raise ValueError unless the array that a npy header describes is what the member holds, and not too big."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    nbytes = prod(shape) * dtype.itemsize
    if nbytes > MAX_ARRAY_BYTES:
        raise ValueError(f"an array of {nbytes} bytes is more than the {MAX_ARRAY_BYTES} that are read")
    if not dtype.hasobject and nbytes != size - file.tell():
        raise ValueError(f"an array says that it has {nbytes} bytes, and {size - file.tell()} are there")


def _unreadable(path: Path, format: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{path}: no such file"
    reason = getattr(error, "strerror", None) or str(error) or "it ends too early"
    return f"{path}: this cannot be read as a {format} file: {reason}"

"""The safetensors format: eight bytes with the length of a JSON header, the header, then the elements.

https://huggingface.co/docs/safetensors has the definition. The package of that name maps files into memory, which the
runtime does not do for the reasons in `runtime.files.file_reader`. So this module reads the format itself, and trusts
nothing that it reads.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import ITEM_BYTES
from runtime.dtypes import BFLOAT16, Array

if TYPE_CHECKING:
    from runtime.memory.limit import MemoryLimit

WORDS: Final = {
    "float32": "F32",
    "float64": "F64",
    "int32": "I32",
    "int64": "I64",
    "bool": "BOOL",
    "uint8": "U8",
    "float16": "F16",
    "bfloat16": "BF16",
}
"""Names of the programs' element types in the format."""

_DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "BF16": BFLOAT16,
    "BOOL": np.dtype(bool),
    **{f"{word}{8 * size}": np.dtype(f"<{letter}{size}") for word, letter in ("Ii", "Uu") for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
}
_Json = dict[str, Any]
_METADATA: Final = "__metadata__"
_MOST_HEADER: Final = 100_000_000  # bytes, as in the package


class Extent(NamedTuple):
    """The range of a tensor's elements in bytes, counted from the end of the header."""

    word: str
    shape: tuple[int, ...]
    start: int
    end: int


class Header(NamedTuple):
    """The content of a header; the extents are in the order of the file, and begin after `nbytes`."""

    extents: dict[str, Extent]
    metadata: dict[str, str]
    nbytes: int


class Reader(Protocol):
    """A source of bytes in order: a `FileReader`, or bytes that are already in memory."""

    @property
    def nbytes(self) -> int:
        """The total number of bytes."""
        ...

    @property
    def memory(self) -> MemoryLimit:
        """The memory account that is asked before arrays are allocated."""
        ...

    def fill(self, out: memoryview) -> None:
        """Read as many bytes as `out` has; raise ValueError if there are fewer."""
        ...

    def take(self, count: int) -> bytearray:
        """Return the next `count` bytes; raise ValueError if there are fewer."""
        ...

    def skip(self, count: int) -> None:
        """Skip the next `count` bytes."""
        ...


def safetensors_header(types: Mapping[str, TensorType], metadata: Mapping[str, str]) -> tuple[list[str], bytes]:
    """Return the names of the tensors in the order of their elements, and the bytes that precede the elements.

    Tensors of large elements come first, then names in order, so every tensor is aligned to its elements.
    """
    from json import dumps

    names = sorted(types, key=lambda name: (-ITEM_BYTES[types[name].dtype], name))
    header: _Json = {_METADATA: dict(metadata)}
    end = 0
    for name in names:
        type = types[name]
        start, end = end, end + type.nbytes
        header[name] = {"dtype": WORDS[type.dtype], "shape": list(type.shape), "data_offsets": [start, end]}
    text = dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return names, len(text).to_bytes(8, "little") + text


def read_header(reader: Reader) -> Header:
    """Return the header of a file; raise ValueError with the fault if it is damaged."""
    nbytes = reader.nbytes
    length = int.from_bytes(reader.take(8), "little")
    if length > min(nbytes - 8, _MOST_HEADER):
        raise ValueError(f"its header claims {length} bytes, and the file has {nbytes}")
    header = _parsed(reader.take(length).decode("utf-8"))
    metadata = header.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in cast(_Json, metadata).values()):
        raise ValueError("its metadata are no texts by name")
    extents = {name: _extent(name, entry) for name, entry in header.items()}
    extents = dict(sorted(extents.items(), key=lambda item: (item[1].start, item[1].end)))
    end = 0
    for name, extent in extents.items():
        if extent.start != end:
            raise ValueError(f"the elements of {name!r} begin at {extent.start}, those before end at {end}")
        end = extent.end
    if end != nbytes - 8 - length:
        raise ValueError(f"its tensors take {end} bytes, and {nbytes - 8 - length} are there")
    return Header(extents, cast(dict[str, str], metadata), 8 + length)


def dtype_of(word: str) -> np.dtype[Any]:
    """Return the little-endian NumPy dtype for a type name of the format.

    Raises KeyError for a type that NumPy lacks.
    """
    return _DTYPES[word]


def read_tensors(
    reader: Reader, header: Header, names: set[str], into: Mapping[str, Array] = MappingProxyType({})
) -> dict[str, Array]:
    """Return the named tensors of a file whose header was just read.

    An array of `into` with the name, shape and element type of a tensor gets its elements and is returned; its elements
    are undefined after an error. Raises ValueError for an element type that NumPy lacks, a bool that is neither 0 nor
    1, or if the file ends before.
    """
    return dict(tensors_one_by_one(reader, header, names, into))


def tensors_one_by_one(
    reader: Reader, header: Header, names: set[str], into: Mapping[str, Array] = MappingProxyType({})
) -> Generator[tuple[str, Array]]:
    """Yield the named tensors in the order of the file, each when it is asked for; see `read_tensors`."""
    at = 0
    for name, extent in header.extents.items():
        if name in names:
            reader.skip(extent.start - at)
            yield name, _tensor(reader, name, extent, into.get(name))
            at = extent.end


def _tensor(reader: Reader, name: str, extent: Extent, there: Array | None) -> Array:
    if extent.word not in _DTYPES:
        raise ValueError(f"the elements of {name!r} are {extent.word}, which prograd does not read")
    if there is not None and _is_like(extent, there):
        reader.fill(there.reshape(-1).view(np.uint8).data)
        return there
    reader.memory.take(extent.end - extent.start, f"the array {name!r}")
    raw = np.empty(extent.end - extent.start, np.uint8)
    reader.memory.note(raw)
    reader.fill(raw.data)
    if extent.word == "BOOL" and raw.max(initial=0) > 1:
        raise ValueError(f"{name!r} has a bool that is neither 0 nor 1")
    dtype = _DTYPES[extent.word]
    if dtype == BFLOAT16:
        raw = raw.view("<u2").astype(np.uint16, copy=False)
        return raw.view(BFLOAT16).reshape(extent.shape)
    return raw.view(dtype).astype(dtype.newbyteorder("="), copy=False).reshape(extent.shape)


def _is_like(extent: Extent, array: Array) -> bool:
    """Return True if the elements of an array have the bytes of the file; a bool has to be looked at first."""
    dtype = _DTYPES[extent.word]
    is_equal = extent.word != "BOOL" and array.shape == extent.shape and array.dtype == dtype
    return is_equal and array.flags.c_contiguous


def _parsed(text: str) -> _Json:
    from json import loads

    try:
        header = loads(text, object_pairs_hook=_without_twins)
    except RecursionError:
        raise ValueError("its header is nested too deeply") from None
    if not isinstance(header, dict):
        raise ValueError("its header is no JSON object")
    return cast(_Json, header)


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("its header has a name twice")
    return found


def _extent(name: str, entry: Any) -> Extent:
    name.encode()  # fails for half of a surrogate pair
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= cast(_Json, entry).keys():
        raise ValueError(f"what it says of {name!r} is no type, shape and place")
    word = cast(object, entry["dtype"])
    shape, offsets = _counts(name, entry["shape"]), _counts(name, entry["data_offsets"])
    if not isinstance(word, str) or len(offsets) != 2 or offsets[0] > offsets[1] or len(shape) > 64:
        raise ValueError(f"what it says of {name!r} is no type, shape and place")
    if word in _DTYPES and prod(shape) * _DTYPES[word].itemsize != offsets[1] - offsets[0]:
        raise ValueError(
            f"the elements of {name!r} take {offsets[1] - offsets[0]} bytes, which is not {word}{[*shape]}"
        )
    return Extent(word, shape, offsets[0], offsets[1])


def _counts(name: str, values: Any) -> tuple[int, ...]:
    counts = cast(list[int], values if isinstance(values, list) else [None])
    if not all(type(value) is int and 0 <= value < 1 << 63 for value in counts):
        raise ValueError(f"what it says of {name!r} has numbers that are no counts")
    return tuple(counts)

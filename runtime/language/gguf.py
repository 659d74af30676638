"""The header of a GGUF file: what it says of its model, and where its tensors lie. Nothing of it is trusted.

The file begins with the word GGUF, a version, the numbers of tensors and of keys; then keys with values, and tensors
with shape, type and place. All numbers are little-endian. Arrays are read as lists.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, NoReturn

from prograd_proto.regular_files import open_regular
from runtime.errors import DataError

MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)

MOST_KEYS: Final = 1 << 12
MOST_TENSORS: Final = 1 << 16
MOST_AXES: Final = 4
MOST_ITEMS: Final = 1 << 21
"""Upper bound on the items of an array, such as the codes of a tokenizer."""

MOST_HEADER_BYTES: Final = 1 << 26
"""Upper bound on keys, values and tensors together, 64 MiB."""

SCALARS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""The forms of numbers, as `struct` names them, by their numbers in the file."""

STRING: Final = 8
ARRAY: Final = 9


class Kind(NamedTuple):
    """A type of tensors: its name, and the elements and bytes of a block."""

    name: str
    elements: int
    nbytes: int


KINDS: Final = {
    0: Kind("F32", 1, 4),
    1: Kind("F16", 1, 2),
    2: Kind("Q4_0", 32, 18),
    3: Kind("Q4_1", 32, 20),
    6: Kind("Q5_0", 32, 22),
    7: Kind("Q5_1", 32, 24),
    8: Kind("Q8_0", 32, 34),
    12: Kind("Q4_K", 256, 144),
    13: Kind("Q5_K", 256, 176),
    14: Kind("Q6_K", 256, 210),
    30: Kind("BF16", 1, 2),
}
"""The types that are read, by their numbers in the file."""

OTHERS: Final = {
    10: "Q2_K", 11: "Q3_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL",
    21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M",
    34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip
"""The names of types that are not read."""


class GgufTensor(NamedTuple):
    """A tensor: its type, its shape with rows last, and its place in the file."""

    kind: Kind
    shape: tuple[int, ...]
    offset: int
    nbytes: int


@dataclass(frozen=True)
class GgufFile:
    """The header of a file.

    Attributes:
        path: the file.
        values: what the file says, by key.
        forms: for each key the kind of its value, and that of the items of an array.
        tensors: the tensors by name.
    """

    path: Path
    values: dict[str, Any]
    forms: dict[str, tuple[int, int]]
    tensors: dict[str, GgufTensor]

    def bytes_of(self, name: str) -> bytes:
        """Return the bytes of a tensor; raise DataError if the file is shorter than it was."""
        tensor = self.tensors[name]
        with _opened(self.path) as stream:
            stream.seek(tensor.offset)
            raw = stream.read(tensor.nbytes)
        if len(raw) != tensor.nbytes:
            raise DataError(f"{self.path}: the file ends within {name}")
        return raw


def is_gguf(path: Path) -> bool:
    """Return True for the name of a GGUF file."""
    return path.suffix == ".gguf"


def read_gguf(path: Path) -> GgufFile:
    """Return the header of a file; raise DataError for a file that is not GGUF, is cut off, or contradicts itself."""
    with _opened(path) as stream:
        stream.seek(0, 2)
        size = stream.tell()
        stream.seek(0)
        reader = _Reader(path, stream, size)
        if reader.take(4) != MAGIC:
            raise DataError(f"{path}: the file is no GGUF, as it does not begin with that word")
        version = reader.number("I")
        if version not in VERSIONS:
            raise DataError(f"{path}: the version of GGUF is {version}; 2 and 3 are read")
        tensors = reader.count("Q", MOST_TENSORS, "tensors")
        keys = reader.count("Q", MOST_KEYS, "keys")
        values, forms = _values(reader, keys)
        return GgufFile(path, values, forms, _tensors(reader, tensors, values.get("general.alignment", 32)))


def _values(reader: _Reader, keys: int) -> tuple[dict[str, Any], dict[str, tuple[int, int]]]:
    values, forms = dict[str, Any](), dict[str, tuple[int, int]]()
    for _ in range(keys):
        key = reader.string()
        if key in values:
            reader.fail(f"the key {key[:80]!r} is there twice")
        values[key], forms[key] = reader.value(reader.number("I"))
    return values, forms


def _tensors(reader: _Reader, count: int, alignment: Any) -> dict[str, GgufTensor]:
    if type(alignment) is not int or not 1 <= alignment <= 1 << 16 or alignment & (alignment - 1):
        reader.fail(f"general.alignment is {alignment!r}, not a power of two up to 65536")
    found: dict[str, tuple[tuple[int, ...], int, int]] = {}
    for _ in range(count):
        name = reader.string()
        if name in found:
            reader.fail(f"the tensor {name[:80]!r} is there twice")
        shape = tuple(reader.number("Q") for _ in range(reader.count("I", MOST_AXES, "axes of a tensor")))
        found[name] = shape[::-1], reader.number("I"), reader.number("Q")
    begin = -(-reader.position // alignment) * alignment
    return {name: _tensor(reader, name, begin, *each) for name, each in found.items()}


def _tensor(reader: _Reader, name: str, begin: int, shape: tuple[int, ...], number: int, offset: int) -> GgufTensor:
    kind = KINDS.get(number)
    if kind is None:
        told = OTHERS.get(number, f"number {number}")
        reader.fail(f"{name[:80]} is of the type {told}; {', '.join(kind.name for kind in KINDS.values())} are read")
    count = prod(shape)
    if not shape or not 0 < count < 1 << 40 or shape[-1] % kind.elements:
        reader.fail(f"{name[:80]} has the shape {list(shape)}, which {kind.name} has not")
    nbytes = count // kind.elements * kind.nbytes
    if begin + offset + nbytes > reader.size:
        reader.fail(f"{name[:80]} ends at byte {begin + offset + nbytes}, and the file has {reader.size}: it is cut")
    return GgufTensor(kind, shape, begin + offset, nbytes)


class _Reader:
    """Reads numbers and strings one after the other, within limits."""

    def __init__(self, path: Path, stream: BinaryIO, size: int) -> None:
        self.path, self.stream, self.size, self.position = path, stream, size, 0

    def fail(self, why: str) -> NoReturn:
        raise DataError(f"{self.path}: {why}")

    def take(self, count: int) -> bytes:
        self.position += count
        if self.position > MOST_HEADER_BYTES:
            self.fail(f"what stands before the tensors has more than {MOST_HEADER_BYTES} bytes, too many")
        raw = self.stream.read(count)
        if len(raw) < count:
            self.fail(f"the file has {self.size} bytes, and ends within what it says of its model: it is cut")
        return raw

    def number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))[0]

    def count(self, form: str, most: int, what: str) -> int:
        found = self.number(form)
        if found > most:
            self.fail(f"the file says that there are {found} {what}, and at most {most} are read")
        return found

    def string(self) -> str:
        raw = self.take(self.count("Q", MOST_HEADER_BYTES, "bytes in a text"))
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            self.fail("a text of the file is no UTF-8")

    def value(self, kind: int) -> tuple[Any, tuple[int, int]]:
        if kind == STRING:
            return self.string(), (kind, 0)
        if kind != ARRAY:
            return self.number(self._form(kind)), (kind, 0)
        items = self.number("I")
        count = self.count("Q", MOST_ITEMS, "items of an array")
        if items == STRING:
            return [self.string() for _ in range(count)], (kind, items)
        form = self._form(items)
        return list(struct.unpack(f"<{count}{form}", self.take(count * struct.calcsize(f"<{form}")))), (kind, items)

    def _form(self, kind: int) -> str:
        if kind not in SCALARS:
            self.fail(f"a value is of the kind {kind}, which GGUF has not")
        return SCALARS[kind]


def _opened(path: Path) -> BinaryIO:
    try:
        return open_regular(path)
    except OSError as error:
        raise DataError(f"{path}: {(error.strerror or str(error)).lower()}") from None

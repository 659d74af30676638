"""Formats of arrays in the bodies of requests and answers.

A format is named by its word in Content-Type and Accept. JSON and safetensors have a name for each array. Raw elements,
row-major and little-endian, and .npy files are one array: that of the only feed, and of the only fetch or the requested
one. Bodies are as untrusted as files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from io import BytesIO
from math import prod
from typing import Any, Final, NamedTuple, cast

import numpy as np

from runtime.dtypes import Array, array_type, as_little, count_nonfinite, is_float, numpy_dtype
from runtime.entries import BoundEntry, Feed
from runtime.errors import DataError
from runtime.files.safetensors_file import read_header, read_tensors, safetensors_header
from runtime.files.tensor_files import parse_npy
from runtime.memory.limit import NO_LIMIT, MemoryLimit
from runtime.serving.bodies import Bytes
from runtime.serving.json_arrays import MAX_PARSED_BYTES, large_json, parsed

JSON_BYTES: Final = 96
"""Upper bound on the bytes for a number or a list while JSON is written; the encoder of Python 3.11 takes 72."""


class Form(NamedTuple):
    """A format: the function that reads the arrays of a body for an entry, and the one that writes fetched arrays."""

    read: Callable[[Bytes, BoundEntry, MemoryLimit], Mapping[str, object]]
    write: Callable[[Mapping[str, Array]], bytes]
    is_one: bool  # True for one array without a name


def input_arrays(form: str, body: Bytes, bound: BoundEntry, memory: MemoryLimit = NO_LIMIT) -> Mapping[str, object]:
    """Return the arrays of a body by feed.

    Raises DataError if the body is not in that format, ResourceLimit if its arrays do not fit into the memory.
    """
    try:
        return bound.names.keys(FORMS[form].read(body, bound, memory))
    except (ValueError, RecursionError) as error:  # RecursionError: lists in lists, a thousand deep
        raise DataError(f"the body is not {form}: {error or 'it ends too early'}") from None


def _from_json(body: Bytes, bound: BoundEntry, memory: MemoryLimit) -> Mapping[str, object]:
    if len(body) > MAX_PARSED_BYTES:
        return large_json(body, bound, memory)
    given = parsed(body)
    if isinstance(given, dict):
        return cast(dict[str, object], given)
    return {_only_feed(bound).name: given}


def _to_json(arrays: Mapping[str, Array]) -> bytes:
    return json.dumps({name: listed(array) for name, array in arrays.items()}, allow_nan=False).encode()


def listed(array: Array) -> Any:
    """Return the array as nested lists, with null for NaN and infinities, which JSON does not have."""
    if is_float(array) and count_nonfinite(array):
        finite = np.isfinite(array)
        array = array.astype(object)
        array[~finite] = None
    return array.tolist()


def _from_raw(body: Bytes, bound: BoundEntry, memory: MemoryLimit) -> Mapping[str, object]:
    del memory  # the array is the body itself, which is counted already
    feed = _only_feed(bound)
    inner = feed.type.static_shape[feed.by_row :]
    dtype = numpy_dtype(feed.type.dtype)
    row = prod(inner) * dtype.itemsize
    if not row or (len(body) % row if feed.by_row else len(body) != row):
        each = f"a row of the feed {feed.name!r}" if feed.by_row else f"the feed {feed.name!r}"
        raise ValueError(f"it has {len(body)} bytes, and {each} takes {row}")
    if feed.type.dtype == "bool" and body and max(body) > 1:
        raise ValueError("it has a bool that is neither 0 nor 1")
    little = np.frombuffer(body, "<u2" if feed.type.dtype == "bfloat16" else dtype.newbyteorder("<"))
    array = little.astype(little.dtype.newbyteorder("="), copy=False).view(dtype)
    return {feed.name: array.reshape((-1, *inner) if feed.by_row else inner)}


def _to_raw(arrays: Mapping[str, Array]) -> bytes:
    return b"".join(as_little(array).tobytes() for array in arrays.values())


def _from_npy(body: Bytes, bound: BoundEntry, memory: MemoryLimit) -> Mapping[str, object]:
    with memory.lent(2 * len(body), "the array"):  # for the array, and the copy that NumPy reads
        array = parse_npy(BytesIO(body), len(body))
    memory.take(array.nbytes, "the array")
    memory.note(array)
    return {_only_feed(bound).name: array}


def _to_npy(arrays: Mapping[str, Array]) -> bytes:
    out = BytesIO()
    for array in arrays.values():
        np.lib.format.write_array(out, array, allow_pickle=False)
    return out.getvalue()


def _from_safetensors(body: Bytes, bound: BoundEntry, memory: MemoryLimit) -> Mapping[str, object]:
    del bound
    reader = _Body(body, memory)
    header = read_header(reader)
    return read_tensors(reader, header, set(header.extents))


def _to_safetensors(arrays: Mapping[str, Array]) -> bytes:
    names, header = safetensors_header({name: array_type(array) for name, array in arrays.items()}, {})
    return header + b"".join(as_little(arrays[name]).tobytes() for name in names)


def written_bytes(form: str, arrays: Mapping[str, Array]) -> int:
    """Return an upper bound on the bytes that are allocated while arrays are written in a format."""
    if form == "application/json":
        return JSON_BYTES * sum(array.size + _lists(array) for array in arrays.values())
    return 2 * sum(array.nbytes for array in arrays.values())


def _lists(array: Array) -> int:
    """Return the number of lists that an array becomes in JSON."""
    return sum(prod(array.shape[:axis]) for axis in range(array.ndim))


def _only_feed(bound: BoundEntry) -> Feed:
    if len(bound.feeds) != 1:
        names = ", ".join(bound.feeds) or "none"
        raise DataError(f"entry {bound.name!r} has the feeds {names}; give them by name, as JSON or safetensors")
    return next(iter(bound.feeds.values()))


class _Body:
    """The bytes of a body in order, as files are read."""

    def __init__(self, body: Bytes, memory: MemoryLimit) -> None:
        self.nbytes = len(body)
        self.memory = memory
        self._body = memoryview(body)
        self._at = 0

    def fill(self, out: memoryview) -> None:
        """Copy as many bytes as `out` has; raise ValueError if there are fewer."""
        if len(out) > self.nbytes - self._at:
            raise ValueError("it ends too early")
        out[:] = self._body[self._at : self._at + len(out)]
        self._at += len(out)

    def take(self, count: int) -> bytearray:
        """Return the next `count` bytes; raise ValueError if there are fewer."""
        out = bytearray(min(count, self.nbytes + 1))
        self.fill(memoryview(out))
        return out

    def skip(self, count: int) -> None:
        """Skip the next `count` bytes."""
        self._at += count


FORMS: Final = {
    "application/json": Form(_from_json, _to_json, is_one=False),
    "application/octet-stream": Form(_from_raw, _to_raw, is_one=True),
    "application/x-npy": Form(_from_npy, _to_npy, is_one=True),
    "application/x-safetensors": Form(_from_safetensors, _to_safetensors, is_one=False),
}
"""The formats by their word in Content-Type and Accept."""

"""NativeCode as bytes: a header in JSON, the tables as 64-bit integers, and the object files.

`from_bytes` returns None for bytes that are not of this form. Whether the numbers within fit a block and each other is
for `code_bounds` to say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from typing import Any, Final, cast

import numpy as np

from prograd_proto import TensorType
from runtime.codegen.actions import ACTION_COLUMNS
from runtime.codegen.code import CHUNK_COLUMNS, FeedPlace, HostOp, InnerHostOp, NativeCode
from runtime.codegen.machine import INSTRUCTION_SETS, Target
from runtime.dtypes import Array

LENGTH_BYTES: Final = 8

TABLES: Final = {
    "words": 2,
    "table_starts": 0,
    "phases": 2,
    "actions": ACTION_COLUMNS,
    "chunks": CHUNK_COLUMNS,
    "segments": 4,
    "group_segments": 4,
    "group_ops": 0,
    "group_ends": 0,
    "tensors": 4,
    "buffers": 4,
    "buffer_groups": 0,
}
"""Tables of NativeCode, with their numbers of columns; 0 for lists of numbers."""


def to_bytes(code: NativeCode) -> bytes:
    """Return the code as bytes; equal code gives equal bytes."""
    tables = [np.ascontiguousarray(getattr(code, name), "<i8").tobytes() for name in TABLES]
    left = {field.name: getattr(code, field.name) for field in fields(code) if field.name not in TABLES}
    left["target"] = asdict(code.target)
    left["objects"] = [len(content) for content in code.objects]
    header = json.dumps([left, [len(table) for table in tables]], separators=(",", ":")).encode()
    return b"".join((len(header).to_bytes(LENGTH_BYTES, "little"), header, *tables, *code.objects))


def from_bytes(content: bytes) -> NativeCode | None:
    """Return the code that these bytes describe; None if they do not have this form."""
    start = LENGTH_BYTES + int.from_bytes(content[:LENGTH_BYTES], "little")
    try:
        left, sizes = json.loads(content[LENGTH_BYTES:start])
        lengths = [*map(_size, sizes), *map(_size, left["objects"])]
        if start + sum(lengths) != len(content):
            return None
        parts: list[memoryview] = []
        for length in lengths:
            parts.append(memoryview(content)[start : start + length])
            start += length
        read: dict[str, Any] = {name: READERS[name](value) for name, value in left.items() if name != "objects"}
        for (name, columns), part in zip(TABLES.items(), parts[: len(TABLES)], strict=True):
            read[name] = _table(part, columns)
        return NativeCode(**read, objects=tuple(map(bytes, parts[len(TABLES) :])))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def _table(content: memoryview, columns: int) -> Array:
    table = np.frombuffer(content, "<i8").astype(np.int64, copy=False)
    return table.reshape(-1, columns) if columns else table


def _number(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is no whole number")
    return value


def _size(value: object) -> int:
    if _number(value) < 0:
        raise ValueError(f"{value} is no size")
    return cast("int", value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is no truth value")
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return cast("list[Any]", value)


def _all_of(read: Callable[[object], Any]) -> Callable[[object], Any]:
    return lambda value: tuple(read(each) for each in _list(value))


def _fields_of(*readers: Callable[[object], Any]) -> Callable[[object], Any]:
    return lambda value: tuple(read(each) for read, each in zip(readers, _list(value), strict=True))


def _made(make: Callable[..., Any], *readers: Callable[[object], Any]) -> Callable[[object], Any]:
    read = _fields_of(*readers)
    return lambda value: make(*cast("Sequence[Any]", read(value)))


def _target(value: object) -> Target:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is no target")
    named = cast("dict[str, Any]", value)
    target = Target(**named)
    wanted = asdict(Target("", "", "", "", 0, 0, fma=False))
    if target.name not in INSTRUCTION_SETS or any(type(wanted[name]) is not type(x) for name, x in named.items()):
        raise TypeError(f"{named} is no target")
    return target


_NUMBERS: Final = _all_of(_number)
_TEXTS: Final = _all_of(_text)

READERS: Final[dict[str, Callable[[object], Any]]] = {
    "target": _target,
    "threads": _size,
    "useful_threads": _size,
    "functions": _TEXTS,
    "states": _TEXTS,
    "constants": _NUMBERS,
    "inner_constants": _all_of(_fields_of(_number, _number)),
    "feeds": _all_of(_made(FeedPlace, _text, _text, _number, _truth, _truth)),
    "arena_bytes": _size,
    "file_bytes": _size,
    "packed_bytes": _size,
    "phase_count": _size,
    "packing": _fields_of(_size, _size),
    "runtime_checks": _NUMBERS,
    "late_updates": _NUMBERS,
    "copied_fetches": _all_of(_fields_of(_text, _text)),
    "hosts": _all_of(_made(HostOp, _number, _number, _TEXTS, _TEXTS, _NUMBERS)),
    "inner_hosts": _all_of(_made(InnerHostOp, _number, _number, _number, _NUMBERS, _NUMBERS, _NUMBERS)),
    "inner_groups": _all_of(_NUMBERS),
    "tensor_names": _TEXTS,
    "types": _all_of(_made(TensorType, _text, _all_of(_size))),
    "layouts": _all_of(_NUMBERS),
    "buffer_names": _TEXTS,
}
"""The function that checks and converts the value of each field of the header."""

"""Arrays for feeds, from the command line: `x=@x.npy`, or a JSON value as in `rate=0.1` and `start="Alice"`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from prograd_proto import TensorType
from runtime.dtypes import Array
from runtime.errors import UsageError
from runtime.files.tensor_files import read_npy
from runtime.memory.limit import NO_LIMIT, MemoryLimit


def read_feeds(given: Sequence[str], memory: MemoryLimit = NO_LIMIT) -> dict[str, object]:
    """Return an array or a value for each feed name.

    Raises UsageError for an argument that is not `name=value`, DataError for a bad file.
    """
    feeds: dict[str, object] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(f"--feed {text}: write name=@file.npy, or name= and a JSON value")
        if name in feeds:
            raise UsageError(f"--feed {text}: the feed {name!r} is given twice")
        feeds[name] = read_npy(Path(value[1:]), memory) if value.startswith("@") else _from_json(text, value)
    return feeds


def texts_as_bytes(feeds: Mapping[str, object], types: Mapping[str, TensorType]) -> dict[str, object]:
    """Return the feeds with a text, or a list of texts, for a uint8 [rows, length] as bytes of UTF-8 and zeros.

    Raises UsageError for a text that has more bytes than a row.
    """
    return {name: _bytes_of(name, value, types[name]) if name in types else value for name, value in feeds.items()}


def _bytes_of(name: str, value: object, type: TensorType) -> object:
    if isinstance(value, list) and value and all(isinstance(text, str) for text in cast(list[Any], value)):
        texts = cast(list[str], value)
    elif isinstance(value, str):
        texts = [value]
    else:
        return cast(object, value)
    if type.dtype != "uint8" or len(type.shape) != 2:
        return cast(object, value)
    length = int(type.shape[1])
    rows: Array = np.zeros((len(texts), length), np.uint8)
    for row, text in zip(rows, texts, strict=True):
        codes = text.encode("utf-8", "replace")
        if len(codes) > length:
            raise UsageError(f"--feed {name}: a text has {len(codes)} bytes, and a row of {name!r} has {length}")
        row[: len(codes)] = np.frombuffer(codes, np.uint8)
    return rows


def _from_json(text: str, value: str) -> object:
    from json import loads

    try:
        return loads(value)
    except (ValueError, RecursionError):  # RecursionError: lists in lists, a thousand deep
        raise UsageError(f"--feed {text}: this is neither @file.npy nor a JSON value") from None

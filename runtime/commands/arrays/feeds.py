"""Arrays for feeds, from the command line: `x=@x.npy`, or a JSON value as in `rate=0.1`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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


def _from_json(text: str, value: str) -> object:
    from json import loads

    try:
        return loads(value)
    except (ValueError, RecursionError):  # RecursionError: lists in lists, a thousand deep
        raise UsageError(f"--feed {text}: this is neither @file.npy nor a JSON value") from None

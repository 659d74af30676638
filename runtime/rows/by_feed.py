"""Rows from a caller: arrays by feed, and a frame of pandas as its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from runtime.errors import UsageError

_EACH: Final = "the feed of each array, as in {'x': x, 'label': label}"


_ELEMENTS: Final = (int, float, str, list, tuple)
"""Types of the items of lists that are arrays, and not batches of arrays by feed."""


def by_feed(data: object) -> object:
    """Return a frame as a mapping of columns, and anything else as it is.

    Raises UsageError for arrays that no feed is named for, and for a mapping whose keys are no names.
    """
    if is_frame(data):
        frame = cast(Mapping[Any, Any], data)
        return {str(name): values.tolist() if values.dtype == object else values for name, values in frame.items()}
    if isinstance(data, list | tuple):
        _require_batches(cast(Sequence[object], data))
    elif hasattr(data, "dtype"):
        raise _unnamed(data)
    if isinstance(data, Mapping):
        for key in cast(Mapping[object, object], data):
            if not isinstance(key, str):
                raise UsageError(f"the rows have the key {key!r}; name {_EACH}")
    return cast(object, data)


def _require_batches(items: Sequence[object]) -> None:
    """Raise UsageError for a list that is an array, and not a list of arrays by feed."""
    if any(hasattr(item, "dtype") or isinstance(item, _ELEMENTS) for item in items):
        raise _unnamed(items)


def named_arrays(data: object) -> Mapping[str, object]:
    """Return arrays by feed of a mapping or a frame; raise UsageError for anything else."""
    data = by_feed(data)
    if not isinstance(data, Mapping):
        raise _unnamed(data)
    return cast(Mapping[str, object], data)


def _unnamed(data: object) -> UsageError:
    return UsageError(f"the rows are of type {type(data).__name__}; name {_EACH}")


def is_frame(data: object) -> bool:
    """Return True if the data is like a frame of pandas: columns by name."""
    return hasattr(data, "columns") and hasattr(data, "items")

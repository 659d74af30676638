"""What a caller gives as rows: arrays by feed, and a frame of pandas as the columns that it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from runtime.errors import UsageError


def by_feed(data: object) -> object:
    """A frame as a mapping of columns; anything else as it is.

    Raises UsageError for arrays that no feed is named for.
    """
    if is_frame(data):
        frame = cast(Mapping[Any, Any], data)
        return {str(name): values.tolist() if values.dtype == object else values for name, values in frame.items()}
    if any(hasattr(item, "dtype") for item in (cast(list[Any], data) if isinstance(data, list | tuple) else [data])):
        raise UsageError(
            f"the rows are of type {type(cast(Any, data)).__name__}; "
            "name the feed of each array, as in {'x': x, 'label': label}"
        )
    return cast(object, data)


def is_frame(data: object) -> bool:
    """Whether it is like a frame of pandas: columns by name."""
    return hasattr(data, "columns") and hasattr(data, "items")

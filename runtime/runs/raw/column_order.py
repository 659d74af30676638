"""The columns of frames that were trained on as the array of one feed, for frames with others or in another order.

A program whose rows are packed knows its columns. Any other program knows only the shape of the array, so the run
remembers the names of the first frame. Arrays, and frames whose columns have no names, are not checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from runtime.errors import DataError


class ColumnOrder:
    """The names of the columns of each feed that a frame was given for."""

    def __init__(self) -> None:
        self._names: dict[str, list[str]] = {}

    def note(self, data: object) -> None:
        """Remember the columns of the frames that are trained on, by feed; raise DataError if a feed has others."""
        for feed, value in cast(Mapping[str, object], data).items() if isinstance(data, Mapping) else ():
            names = _names(value)
            if names is not None and self._names.setdefault(feed, names) != names:
                raise _other(feed, self._names[feed], names)

    def require(self, feeds: Mapping[str, object]) -> None:
        """Raise DataError for a frame whose columns differ in name or order from those that were trained on."""
        for feed, known in self._names.items():
            names = _names(feeds.get(feed))
            if names is not None and names != known:
                raise _other(feed, known, names)


def _names(value: object) -> list[str] | None:
    """Return the columns of a frame; None for anything else, and for columns that are numbered."""
    columns = getattr(value, "columns", None)
    if columns is None or isinstance(value, Mapping):
        return None
    names: list[object] = list(columns)
    return cast(list[str], names) if names and all(isinstance(name, str) for name in names) else None


def _other(feed: str, known: list[str], names: list[str]) -> DataError:
    at = next(
        (at for at, pair in enumerate(zip(known, names, strict=False)) if pair[0] != pair[1]),
        min(len(known), len(names)),
    )
    given = f"column {at + 1} of the frame is {names[at]!r}" if at < len(names) else f"the frame has {at} columns"
    wanted = f"{known[at]!r} was trained on there" if at < len(known) else f"{at} columns were trained on"
    return DataError(f"feed {feed!r}: {given}, and {wanted}; give the columns that the run was trained with, in order")

"""Windows of consecutive rows of a table, as for a series in time, and the value that follows each of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, cast

import numpy as np

from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.rows.encoding.class_texts import kinds_of
from runtime.rows.encoding.column_fields import is_text
from runtime.rows.encoding.lists import is_listed
from runtime.rows.encoding.row_errors import RowError
from runtime.rows.encoding.values import require_values, shown

NEXT: Final = "_next"
"""End of the name of the array of targets."""


def groups_of(name: str, raw: Array) -> Array:
    """Return for each row the number of its series; raise DataError, which names the row, if one begins twice."""
    require_values(name, raw)
    if is_listed(raw):
        raise DataError(f"{name!r} has lists, and tells series apart by single values")
    groups = kinds_of(raw)
    begins = np.flatnonzero(np.diff(groups, prepend=-1))
    seen: set[int] = set()
    for row, group in zip(begins.tolist(), groups[begins].tolist(), strict=True):
        if group in seen:
            what = f"is {shown(raw[row])} again, and the rows of a series follow each other"
            raise RowError(row, name, f"{what}; sort the table by {name!r}")
        seen.add(group)
    return groups


@dataclass(frozen=True)
class Series:
    """The windows of a table.

    Attributes:
        length: rows of a window.
        stride: rows between the starts of two windows of the training.
        target: column that is predicted, or "" for none.
        ahead: rows from the last of a window to its target, or to each of several, in rising order.
        group: column whose values are series of their own, which no window leaves, or "" if all rows are one series.
        known: columns whose values at the rows of the targets are known before, and are rows of a window as well.
    """

    length: int
    stride: int
    target: str
    ahead: tuple[int, ...]
    group: str = ""
    known: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name of the array of targets."""
        return self.target + NEXT

    @property
    def behind(self) -> dict[str, str]:
        """The columns of arrays that have values behind windows, by the name of the array."""
        return {name + NEXT: name for name in (*self.known, *([self.target] if self.target else []))}

    def needed(self, *, targets: bool) -> int:
        """Return the rows of a window, and with `targets` or known columns those up to its last target."""
        return self.length + (self.ahead[-1] if targets or self.known else 0)

    def starts(self, rows: int, groups: Array | None, *, targets: bool) -> Array:
        """Return the first rows of all windows at a stride of 1; raise DataError if there is none.

        Args:
            rows: number of rows of the table.
            groups: numbers of the series that rows belong to, or None for one series.
            targets: leave out windows that have no target.
        """
        found = self.starts_of(rows, groups, self.needed(targets=targets))
        if not len(found):
            raise self.no_window(rows, targets=targets)
        return found

    def no_window(self, rows: int, *, targets: bool) -> DataError:
        """Return the error about a table of so few rows that it has no window."""
        more = self.needed(targets=targets) - self.length
        behind = f" and {'its target' if targets else 'what is known behind it'} {more} more" if more else ""
        there = f"no value of {self.group!r} has as many" if self.group else f"the table has {rows}"
        return DataError(f"a window takes {self.length} rows{behind}, and {there}; give more rows")

    def starts_of(self, rows: int, groups: Array | None, needed: int) -> Array:
        """Return the rows behind which all of `needed` rows belong to the same series."""
        starts = np.arange(max(0, rows - needed + 1))
        if groups is None:
            return starts
        runs = np.cumsum(np.diff(groups, prepend=groups[:1]) != 0)
        return starts[runs[starts] == runs[starts + needed - 1]]

    def windows(self, array: Array, starts: Array) -> Array:
        """Return the windows of an array that begin with these rows, [windows, length, ...]."""
        view = np.lib.stride_tricks.sliding_window_view(array, self.length, axis=0)
        return np.ascontiguousarray(np.moveaxis(view, -1, 1)[starts])

    def targets(self, array: Array, starts: Array) -> Array:
        """Return the targets of the windows that begin with these rows."""
        last = starts + self.length - 1
        return array[last + self.ahead[0] if len(self.ahead) == 1 else last[:, None] + np.array(self.ahead)]

    def to_json(self) -> dict[str, Any]:
        """Return the fields, without those that are empty by default; a single number in `ahead` stands alone."""
        given = {name: value for name, value in asdict(self).items() if name not in ("group", "known") or value}
        return given | {"ahead": self.ahead[0] if len(self.ahead) == 1 else self.ahead}

    @classmethod
    def from_json(cls, values: object) -> Series:
        """Return the windows that `to_json` described; raise ValueError for anything else."""
        given = cast(dict[str, Any], values) if isinstance(values, dict) else {}
        ahead, known = _listed(given.get("ahead")), given.get("known", [])
        sizes = [given.get("length"), given.get("stride"), *ahead]
        names = [given.get("target"), given.get("group", ""), *(_listed(known) if known else [])]
        sane = given.keys() - {"group", "known"} == {"length", "stride", "target", "ahead"}
        sane = sane and all(is_text(name) for name in names) and isinstance(known, list)
        if not sane or not all(type(size) is int and 0 < size < 1 << 31 for size in sizes):
            raise ValueError("windows are not as they were written")
        if not ahead or sorted({*ahead}) != ahead:
            raise ValueError("the targets of its windows are not in rising order")
        made: dict[str, Any] = {**given, "ahead": tuple(ahead), "known": tuple(cast(list[str], known))}
        return cls(**made)


def _listed(value: object) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else [value]

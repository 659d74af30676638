"""Fetched numbers as the values that they stand for: those of a column, or texts of bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from prograd_proto.spelling import closest_or_all
from runtime.dtypes import Array
from runtime.errors import UsageError
from runtime.runs.session import Session

BYTES: Final = "utf-8"
"""Word that reads numbers as bytes of UTF-8, in place of the name of a column."""


class Decoding:
    """A function from fetched arrays to the values that they stand for.

    An array of one float per value yields that of the largest, and None for a row with NaN.

    Attributes:
        columns: columns by fetch, without those that are read as bytes.
    """

    def __init__(self, session: Session, asked: Mapping[str, str]) -> None:
        """Take the column of each fetch; raise DataError for an unknown one, or data without an encoding."""
        self.columns = {name: column for name, column in asked.items() if column != BYTES}
        self._as_bytes = [name for name in asked if name not in self.columns]
        encoding = session.data.encoding() if self.columns else None
        self._encodings = {} if encoding is None else dict.fromkeys(self.columns, encoding)
        for name, encoding in self._encodings.items():
            encoding.members(self.columns[name])

    def require_fetches(self, entry: str, known: Mapping[str, object] | list[str]) -> None:
        """Raise UsageError for a fetch that an entry does not have."""
        for name in [*self.columns, *self._as_bytes]:
            if name not in known:
                hint = closest_or_all(name, known)
                raise UsageError(f"--decode {name}: the entry {entry!r} has no fetch {name!r}{hint}")

    def __call__(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return the arrays with values; raise DataError for a number without a value, UsageError for another shape."""
        found = self.with_texts(arrays)
        for name, encoding in self._encodings.items():
            if name not in found:
                continue
            array, column = found[name], self.columns[name]
            known = encoding.columns[column].values if column in encoding.columns else ()
            if array.dtype.kind == "f" and known and (array.ndim != 2 or array.shape[1] != len(known)):
                raise UsageError(
                    f"--decode {name}={column}: {name!r} is {array.dtype}{[*array.shape]}; "
                    f"numbers of the {len(known)} values of {column!r} are int64[rows], or a float for each"
                )
            found[name] = encoding.decode(column, array)
        return found

    def with_texts(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return the arrays with texts in place of bytes."""
        return dict(arrays) | {name: _texts(name, arrays[name]) for name in self._as_bytes if name in arrays}


def _texts(name: str, codes: Array) -> Array:
    """Return the texts of bytes along the last axis, without zeros at their ends; U+FFFD stands for other bytes."""
    if codes.dtype != np.uint8 or not codes.ndim:
        raise UsageError(
            f"--decode {name}={BYTES}: {name!r} is {codes.dtype}{[*codes.shape]}; texts are uint8 rows of bytes"
        )
    rows = codes.reshape(-1, codes.shape[-1]) if codes.size else np.zeros((0, 1), np.uint8)
    texts = [row.tobytes().rstrip(b"\0").decode("utf-8", "replace") for row in rows]
    return np.array(texts, np.str_).reshape(codes.shape[:-1])

"""The option `--decode`: fetched numbers, decoded into the values of a column, or bytes into texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from runtime.dtypes import Array
from runtime.errors import UsageError
from runtime.rows.encoding.scores import Unanswered
from runtime.runs.run import Run

BYTES: Final = "utf-8"
"""Word of `--decode` that reads numbers as bytes of UTF-8, instead of the name of a column."""


def asked_columns(given: Sequence[str]) -> dict[str, str]:
    """Return the column of each fetch, from `NAME=COLUMN`; NAME alone is both. Raises UsageError for anything else."""
    pairs: dict[str, str] = {}
    for text in given:
        name, equals, column = text.partition("=")
        if not name or (equals and not column):
            raise UsageError(f"--decode {text}: write NAME or NAME=COLUMN")
        pairs[name] = column or name
    return pairs


def decoded(run: Run, asked: Mapping[str, str], arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays with values in place of numbers; an array of one float per value yields that of the largest.

    A row of floats with NaN has an empty text.

    Raises DataError if the program's data does not say how it was encoded, or a number stands for no value.
    """
    found, unanswered = dict(arrays), Unanswered()
    columns = {name: column for name, column in asked.items() if column != BYTES}
    encoding = run.session.data.encoding() if columns else None
    found |= {name: _texts(name, found[name]) for name in asked if name not in columns}
    for name, column in columns.items():
        assert encoding is not None, "read where anything is asked"
        values, array = encoding.decode, found[name]
        known = encoding.columns[column].values if column in encoding.columns else ()
        if array.dtype.kind == "f" and known and (array.ndim != 2 or array.shape[1] != len(known)):
            raise UsageError(
                f"--decode {name}={column}: {name!r} is {array.dtype}{[*array.shape]}; "
                f"numbers of the {len(known)} values of {column!r} are int64[rows], or a float for each"
            )
        found[name] = values(column, array)
    unanswered.add({name: found[name] for name in columns})
    unanswered.warn()
    return found | {name: _as_text(found[name]) for name in columns}


def _as_text(values: Array) -> Array:
    """Return values as an array that files take: texts, "" for None, or numbers as they are."""
    if values.dtype != object:
        return values
    known = ["" if value is None else str(value) for value in values.reshape(-1).tolist()]
    return np.array(known, np.str_).reshape(values.shape)


def _texts(name: str, codes: Array) -> Array:
    """Return the texts of bytes along the last axis, without zeros at their ends; U+FFFD stands for other bytes."""
    if codes.dtype != np.uint8 or not codes.ndim:
        raise UsageError(
            f"--decode {name}={BYTES}: {name!r} is {codes.dtype}{[*codes.shape]}; texts are uint8 rows of bytes"
        )
    rows = codes.reshape(-1, codes.shape[-1]) if codes.size else np.zeros((0, 1), np.uint8)
    texts = [row.tobytes().rstrip(b"\0").decode("utf-8", "replace") for row in rows]
    return np.array(texts, np.str_).reshape(codes.shape[:-1])

"""The option `--decode`: fetched numbers, decoded into the values of a column, or bytes into texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from runtime.dtypes import Array
from runtime.errors import UsageError
from runtime.rows.encoding.scores import warn_of_unanswered
from runtime.runs.raw.decoding import BYTES, Decoding
from runtime.runs.run import Run


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
    """Return the arrays with values in place of numbers, as `Decoding` has them, in a form that files take.

    A row of floats with NaN has an empty text; a warning counts such rows.
    """
    found = Decoding(run.session, asked)(arrays)
    columns = [name for name, column in asked.items() if column != BYTES]
    warn_of_unanswered({name: found[name] for name in columns})
    return found | {name: _as_text(found[name]) for name in columns}


def _as_text(values: Array) -> Array:
    """Return values as an array that files take: texts, "" for None, or numbers as they are."""
    if values.dtype != object:
        return values
    known = ["" if value is None else str(value) for value in values.reshape(-1).tolist()]
    return np.array(known, np.str_).reshape(values.shape)

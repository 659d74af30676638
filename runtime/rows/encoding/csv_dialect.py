"""The separator of a CSV file, from its first lines.

1. A first line `sep=;`, which spreadsheets write, names it.
2. Otherwise it is a character that separates the first line outside of quotes.
3. Of several such characters, it is the one by which the next records have as many values as the first line; of several
   again, the one that makes more columns.
"""

from __future__ import annotations

import csv
import re
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from runtime.errors import DataError
from runtime.rows.table_names import suffix_of

SAMPLE_CHARACTERS: Final = 1 << 16
"""Characters at the beginning of a file that are looked at."""

_SEPARATORS: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}

_RECORDS: Final = 32
"""Upper bound on the records that are looked at."""

_SAID: Final = re.compile(r'\s*"?sep=([^"\r\n])"?[ ,;\t]*(\r|\n|$)', re.IGNORECASE)


class Dialect(NamedTuple):
    """The character that separates values; `is_said` if the first line names it, and is no row."""

    separator: str
    is_said: bool = False


def dialect_of(path: Path, sample: str) -> Dialect:
    """Return the dialect of a file that begins with `sample`; raise DataError if two separators fit equally well."""
    said = _SAID.match(sample)
    if said:
        return Dialect(said[1], is_said=True)
    if suffix_of(path) == ".tsv":
        return Dialect("\t")
    widths = {separator: _widths(sample, separator) for separator in _SEPARATORS}
    found = {separator: width for separator, width in widths.items() if width and width[0] > 1}
    fitting = {separator: width for separator, width in found.items() if len(set(width)) == 1} or found
    if not fitting:
        return Dialect(",")
    most = max(width[0] for width in fitting.values())
    widest = [separator for separator, width in fitting.items() if width[0] == most]
    if len(widest) > 1:
        what = " and ".join(_SEPARATORS[separator] for separator in widest[:2])
        raise DataError(
            f"{path}: {what} separate the first lines equally well; put a line sep={widest[0]} or sep={widest[1]} "
            "before them"
        )
    return Dialect(widest[0])


def _widths(sample: str, separator: str) -> list[int]:
    """Return the number of values of the first line and of the whole records after it, and 0 for what is no record."""
    end = 1 + max(sample.rfind("\n"), sample.rfind("\r"))
    lines = StringIO(sample[:end] if sample[:end].strip() else sample, newline="")
    found: list[int] = []
    try:
        for record in islice(csv.reader(lines, delimiter=separator, strict=True), _RECORDS):
            found += [len(record)] if record else []
    except csv.Error as error:
        found += [0] if "unexpected end" not in str(error) else []  # the sample ends inside a record
    return found

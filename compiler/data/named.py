"""Checks that an option can use the columns that it names; a pattern skips columns that the option cannot use."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from compiler.data.options import PackOptions, is_pattern
from runtime.errors import UsageError
from runtime.rows.encoding.column import Column

_log = logging.getLogger("prograd")

_WORDS: Final = {"number": "numbers", "whole": "whole numbers", "class": "classes", "text": "texts", "date": "dates"}


_USES: Final[Mapping[str, tuple[Callable[[Column], bool], str]]] = {
    "join": (lambda column: column.is_joinable, "columns of float32 numbers are joined"),
    "standardise": (
        lambda column: column.mean is not None or bool(column.means),
        "numbers that are not whole are standardised",
    ),
    "classes": (lambda column: column.kind == "class", "columns of single values become classes"),
    "whole": (lambda column: column.kind == "whole", "columns of single numbers become whole numbers"),
    "text": (lambda column: column.kind == "text", "columns of texts are kept as text"),
    "words": (lambda column: column.kind == "text", "columns of texts are kept as words"),
    "one_hot": (lambda column: column.one_hot, "columns of single values become classes"),
    "indicate": (lambda column: column.indicated, "columns of single numbers say where one is missing"),
    "log": (lambda column: column.transform == "log", "columns of single numbers have logarithms, and one transform"),
    "quantile": (lambda column: column.transform == "quantile", "columns of single numbers have quantiles"),
    "bpe": (lambda column: bool(column.tokenizer), "columns of texts are kept as subwords"),
    "hash": (lambda column: bool(column.buckets), "columns of texts are kept as hashes of their words"),
    "date": (lambda column: column.kind == "date", "columns of dates become numbers"),
    "missing": (
        lambda column: column.kind != "text" and not column.listed,
        "columns of single numbers and of classes have values in place of missing ones",
    ),
}
"""For each option, a test of the columns that it can use, and the end of the error for other columns."""


def require_used(options: PackOptions, columns: Mapping[str, Column]) -> None:
    """Raise UsageError for a column that an option names and cannot use, and log the columns that patterns skip.

    `columns` are the kept columns with their encoding.
    """
    for option, (is_used, which) in _USES.items():
        for pattern in options.named[option]:
            if option == "missing" and options.missing[pattern] == "drop":
                continue
            if is_pattern(pattern, columns):
                _say_skipped(option, pattern, columns, is_used)
            elif pattern in columns and not is_used(columns[pattern]):
                column = columns[pattern]
                what = "lists" if column.listed else _WORDS[column.kind]
                raise UsageError(f"{option}: the column {pattern!r} has {what}, and only {which}; leave it out")


def require_kept(options: PackOptions, dropped: set[str]) -> None:
    """Raise UsageError for a column that is dropped and that another option names."""
    for option, patterns in options.named.items():
        for pattern in patterns:
            given = option != "missing" or options.missing[pattern] != "drop"
            if option != "drop" and given and pattern in dropped:
                raise UsageError(f"{option}: the column {pattern!r} is dropped; leave it out of one of the two options")


def _say_skipped(option: str, pattern: str, columns: Mapping[str, Column], is_used: Callable[[Column], bool]) -> None:
    from fnmatch import fnmatchcase

    skipped = [name for name, column in columns.items() if fnmatchcase(name, pattern) and not is_used(column)]
    if skipped:
        more = f" and {len(skipped) - 8} more" if len(skipped) > 8 else ""
        _log.warning("%s: %r skips %s%s, which it cannot use", option, pattern, ", ".join(skipped[:8]), more)

"""Options of packing."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from operator import index
from typing import Any, Final, Literal

import numpy as np

from prograd_proto.spelling import closest_or_all
from runtime.errors import UsageError
from runtime.rows.encoding.dates import DEFAULT_PARTS, PARTS

Form = Callable[[Any], Any]
"""A function from an argument to the value of an option; raises an error for another one."""

By = Literal["random", "stratified", "time", "group"]
SPLIT_METHODS: Final = ("random", "stratified", "time", "group")

NAMING: Final = (
    "classes", "whole", "drop", "standardise", "one_hot", "indicate", "log", "quantile", "known", "text", "words",
    "bpe", "hash", "date", "join", "missing",
)  # fmt: skip
"""Options that name columns."""


@dataclass(frozen=True)
class PackOptions:
    """Options of packing a source. Names of columns may be patterns, as in "height_*".

    Attributes:
        classes: columns whose values become numbers from 0 on, like labels; columns of texts do so by default.
        whole: columns of integers to keep as int64.
        text: text columns by name, with the bytes to keep of each row, or 0 for all: rows of unequal length.
        words: text columns by name, with the words to keep of each row, or 0 for all.
        drop: columns to leave out.
        join: arrays [rows, columns] by name, with the number columns that are concatenated in them.
        standardise: number columns to scale to mean 0 and deviation 1 over the training rows.
        missing: by column, the replacement of a missing value: a number or a value, "mean", "median" or "most" (the
            most frequent value) of the training rows, or "drop" to leave out the row.
        split: fractions of the rows by the name of a split; the first one is for training.
        by: the assignment of rows to splits: at random, with equal shares of each value of the column `of`, in its
            order, or with all rows of one value of it together. Windows by group do not leave the rows of one value.
        of: the column for `by`; unused if rows are assigned at random.
        seed: seed of the random assignment.
        size: height and width of images; by default their own, which must be equal.
        grey: True if images have one channel.
        window: bytes, or with `bpe` subwords, in a row of a text file, whose rows are by default its lines; or rows in
            a window of a table.
        vocabulary: upper bound on the words or subwords that are kept of texts.
        date: date columns by name, with the parts to make numbers of, or () for days, year_cycle and week_cycle.
        date_format: format of dates for `strptime`, as "%d.%m.%Y"; by default ISO 8601.
        one_hot: columns of classes to keep as a float for each class.
        indicate: number columns to keep as two floats, the number and 1 where it was missing. A missing number is the
            mean unless `missing` has another replacement.
        log: number columns to replace by log(1 + x).
        quantile: number columns to replace by the share of training rows below, from 0 to 1.
        decimal: "," if texts of numbers have decimal commas.
        stride: bytes, subwords or rows between the starts of two windows; by default those of a window for bytes and
            subwords, 1 for rows.
        target: column whose value after each window of rows is predicted.
        ahead: rows from the last of a window to its target, or to each of several.
        known: columns whose values at the rows of the targets are known before, such as holidays, kept as NAME_next.
        bpe: text columns by name, with the subwords to keep of each row, or 0 for all.
        hash: text columns by name, with the number of which hashes of words stay below.
    """

    classes: Sequence[str] = ()
    whole: Sequence[str] = ()
    text: Mapping[str, int] = field(default_factory=dict[str, int])
    words: Mapping[str, int] = field(default_factory=dict[str, int])
    drop: Sequence[str] = ()
    join: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    standardise: Sequence[str] = ()
    missing: Mapping[str, str | float] = field(default_factory=dict[str, str | float])
    split: Mapping[str, float] = field(default_factory=dict[str, float])
    by: By = "random"
    of: str | None = None
    seed: int = 0
    size: tuple[int, int] | None = None
    grey: bool = False
    window: int | None = None
    vocabulary: int = 20_000
    date: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    date_format: str = ""
    one_hot: Sequence[str] = ()
    indicate: Sequence[str] = ()
    log: Sequence[str] = ()
    quantile: Sequence[str] = ()
    decimal: str = "."
    stride: int | None = None
    target: str | None = None
    ahead: Sequence[int] = (1,)
    known: Sequence[str] = ()
    bpe: Mapping[str, int] = field(default_factory=dict[str, int])
    hash: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def named(self) -> dict[str, list[str]]:
        """Return the names and patterns of columns by option; the columns must exist."""
        joined = [pattern for patterns in self.join.values() for pattern in patterns]
        return {option: list(getattr(self, option)) for option in NAMING} | {"join": joined}

    @cached_property
    def names(self) -> dict[str, Names]:
        """Return the names and patterns by option, for look-up."""
        return {option: Names(given) for option, given in self.named.items()}


def is_pattern(text: str, names: Container[str]) -> bool:
    """Return True if a text matches any number of columns; a column with exactly that name takes precedence."""
    return text not in names and any(letter in text for letter in "*?[")


class Names:
    """Names and patterns of columns; a look-up takes time in the patterns, not in all names."""

    def __init__(self, given: Iterable[str]) -> None:
        self._exact = dict.fromkeys(given)
        self._patterns = [text for text in self._exact if is_pattern(text, ())]

    def __contains__(self, name: str) -> bool:
        return self.meant(name) is not None

    def meant(self, name: str) -> str | None:
        """Return the name itself if it was given, else the first pattern that it matches, or None."""
        if name in self._exact:
            return name
        return next((pattern for pattern in self._patterns if fnmatchcase(name, pattern)), None)


def options_of(given: Mapping[str, Any]) -> PackOptions:
    """Return options from Python arguments. Raise UsageError for an unknown option or an invalid value."""
    asked: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _FORMS:
            raise UsageError(f"pack: there is no option {name!r}{closest_or_all(name, _FORMS)}")
        form, example = _FORMS[name]
        try:
            asked[name] = form(value)
        except (AttributeError, TypeError, ValueError):
            raise UsageError(f"pack: {name}={value!r}: give it as {name}={example}") from None
    return PackOptions(**asked)


def _names(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [_is(name, str) for name in value]


def _by_name(form: Form, *, or_names: bool = False) -> Form:
    """Return the form of values by name; with `or_names`, also of names alone, each with None."""

    def made(value: Any) -> dict[str, Any]:
        values = dict.fromkeys(_names(value)) if or_names and not hasattr(value, "items") else value
        return {_is(name, str): form(each) for name, each in values.items()}

    return made


def _length(value: Any) -> int:
    return _least(value or 0, 0)


def _known_parts(parts: Any) -> list[str]:
    names = _names(parts or DEFAULT_PARTS)
    for name in names:
        if name not in PARTS:
            raise UsageError(f"date: a date has no part {name!r}{closest_or_all(name, PARTS)}")
    return names


def _one_of(*words: str) -> Form:
    """Return the form of a value that is one of these words."""

    def form(value: Any) -> str:
        if value not in words:
            raise ValueError(value)
        return value

    return form


def _text(value: Any) -> str:
    return _is(value, str)


def _or_none(form: Form) -> Form:
    """Return the form of a value that may be None."""
    return lambda value: None if value is None else form(value)


def _extents(value: Any) -> tuple[int, int]:
    height, width = value
    return _least(height), _least(width)


def _is(value: Any, type: Any) -> Any:
    if not isinstance(value, type):
        raise TypeError(value)
    return value


def _horizons(value: Any) -> tuple[int, ...]:
    numbers = [_least(number) for number in np.atleast_1d(value).tolist()]
    if not numbers:
        raise ValueError(value)
    return tuple(sorted(set(numbers)))


def _least(value: Any, least: int = 1) -> int:
    number = index(value)
    if number < least:
        raise ValueError(value)
    return number


_FORMS: Final[dict[str, tuple[Form, str]]] = {
    "classes": (_names, '["city"]'),
    "whole": (_names, '["count"]'),
    "text": (_by_name(_length, or_names=True), '{"review": 100}, or ["review"] for all of it'),
    "words": (_by_name(_length, or_names=True), '{"review": 50}, or ["review"] for all of them'),
    "drop": (_names, '["name"]'),
    "join": (_by_name(_names), '{"x": ["age", "height"]}'),
    "standardise": (_names, '["age"]'),
    "missing": (
        _by_name(lambda fill: fill if isinstance(fill, str | int) else float(fill)),
        '{"age": "mean", "city": "other"}',
    ),
    "split": (_by_name(lambda share: float(_is(share, int | float))), '{"train": 0.8, "test": 0.2}'),
    "by": (_one_of(*SPLIT_METHODS), '"stratified", with of="label"; or "time", "group" or "random"'),
    "of": (_or_none(_text), '"label"'),
    "seed": (index, "0"),
    "size": (_or_none(_extents), "(32, 32)"),
    "grey": (lambda value: _is(value, bool), "True"),
    "window": (_or_none(_least), "64"),
    "vocabulary": (_least, "20_000"),
    "date": (_by_name(_known_parts, or_names=True), '["bought"], or {"bought": ["days", "year_cycle"]}'),
    "date_format": (_text, '"%d.%m.%Y"'),
    "one_hot": (_names, '["city"]'),
    "indicate": (_names, '["income"]'),
    "log": (_names, '["income"]'),
    "quantile": (_names, '["income"]'),
    "decimal": (_one_of(".", ","), '","'),
    "stride": (_or_none(_least), "1"),
    "target": (_or_none(_text), '"load"'),
    "ahead": (_horizons, "1, or ahead=[1, 24]"),
    "known": (_names, '["holiday"]'),
    "bpe": (_by_name(_length, or_names=True), '{"review": 50}, or ["review"] for all of them'),
    "hash": (_by_name(lambda count: _least(count, 2)), '{"review": 65536}'),
}
"""For each option, its conversion from a value, and an example."""

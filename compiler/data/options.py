"""What can be asked of packing."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from operator import index
from typing import Any, Final, Literal, cast

from prograd_proto.spelling import closest
from runtime.errors import UsageError

By = Literal["random", "stratified", "time", "group"]
WAYS: Final = ("random", "stratified", "time", "group")


@dataclass(frozen=True)
class PackOptions:
    """How a source is packed. Names of columns may be patterns, as in "height_*".

    Attributes:
        classes: columns whose values become numbers from 0 on, as labels do; columns of texts do anyway.
        whole: columns of whole numbers that stay so, as int64.
        text: columns of text by name, with how many bytes of each row are kept, or 0 for all: rows of unequal length.
        words: columns of text by name, with how many words of each row are kept, or 0 for all.
        drop: columns that are left out.
        join: arrays [rows, columns] by name, with the columns of numbers that stand side by side in them.
        standardise: columns of numbers that get mean 0 and deviation 1 over the training rows.
        missing: for columns, what stands for a missing value: a number or a value, "mean", "median" or "most" of the
            training rows, or "drop" for rows that are left out.
        split: fractions of the rows by the name of a split; the first is what trains.
        by: how rows come into splits: at random, with equal shares of each value of the column `of`, in its order, or
            with all rows of one value of it together.
        of: a column, unless rows come at random.
        seed: of chance.
        size: height and width of images; as they are unless given, and then all alike.
        grey: images have one channel.
        window: of a text file, bytes in a row; its lines are the rows unless given.
        vocabulary: words that are kept of texts, at most.
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

    @property
    def named(self) -> dict[str, list[str]]:
        """By option, the names and patterns of columns that it was given, which are to be there."""
        joined = [pattern for patterns in self.join.values() for pattern in patterns]
        lists = {"classes": self.classes, "whole": self.whole, "drop": self.drop, "standardise": self.standardise}
        return {name: list(given) for name, given in lists.items()} | {
            "text": list(self.text),
            "words": list(self.words),
            "join": joined,
            "missing": list(self.missing),
        }

    @cached_property
    def names(self) -> dict[str, Names]:
        """By option, the same to look names up."""
        return {option: Names(given) for option, given in self.named.items()}


def is_pattern(text: str, names: Container[str]) -> bool:
    """Return True if a text stands for any number of columns; a column may have the very name of a pattern."""
    return text not in names and any(letter in text for letter in "*?[")


class Names:
    """Names and patterns of columns; to look up a name takes the time of the patterns, and not of all names."""

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
    """Options as they are given in Python. Raises UsageError for one that there is not, or what is none."""
    asked: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _FORMS:
            hint = closest(name, _FORMS) or f"; there are {', '.join(_FORMS)}"
            raise UsageError(f"pack: there is no option {name!r}{hint}")
        form, example = _FORMS[name]
        try:
            asked[name] = form(value)
        except (AttributeError, TypeError, ValueError):
            raise UsageError(f"pack: {name}={value!r}: give it as {name}={example}") from None
    return PackOptions(**asked)


def _names(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [_is(name, str) for name in value]


def _lengths(value: Any) -> dict[str, int]:
    if isinstance(value, Mapping):
        lengths = cast(Mapping[Any, Any], value)
        return {_is(name, str): _least(length or 0, 0) for name, length in lengths.items()}
    return dict.fromkeys(_names(value), 0)


def _joined(value: Any) -> dict[str, list[str]]:
    return {_is(name, str): _names(patterns) for name, patterns in value.items()}


def _fills(value: Any) -> dict[str, str | float]:
    return {_is(name, str): fill if isinstance(fill, str) else float(fill) for name, fill in value.items()}


def _shares(value: Any) -> dict[str, float]:
    return {_is(name, str): float(_is(share, int | float)) for name, share in value.items()}


def _way(value: Any) -> By:
    if value not in WAYS:
        raise ValueError(value)
    return value


def _extents(value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    height, width = value
    return _least(height), _least(width)


def _is(value: Any, type: Any) -> Any:
    if not isinstance(value, type):
        raise TypeError(value)
    return value


def _least(value: Any, least: int = 1) -> int:
    number = index(value)
    if number < least:
        raise ValueError(value)
    return number


_FORMS: Final[dict[str, tuple[Callable[[Any], Any], str]]] = {
    "classes": (_names, '["city"]'),
    "whole": (_names, '["count"]'),
    "text": (_lengths, '{"review": 100}, or ["review"] for all of it'),
    "words": (_lengths, '{"review": 50}, or ["review"] for all of them'),
    "drop": (_names, '["name"]'),
    "join": (_joined, '{"x": ["age", "height"]}'),
    "standardise": (_names, '["age"]'),
    "missing": (_fills, '{"age": "mean", "city": "other"}'),
    "split": (_shares, '{"train": 0.8, "test": 0.2}'),
    "by": (_way, '"stratified", with of="label"; or "time", "group" or "random"'),
    "of": (lambda value: None if value is None else _is(value, str), '"label"'),
    "seed": (index, "0"),
    "size": (_extents, "(32, 32)"),
    "grey": (lambda value: _is(value, bool), "True"),
    "window": (lambda value: None if value is None else _least(value), "64"),
    "vocabulary": (_least, "20_000"),
}
"""By option, what makes it of a value, and an example."""

"""What can be asked of packing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

By = Literal["random", "stratified", "time", "group"]


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


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a column is meant by one of the patterns."""
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)

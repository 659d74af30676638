"""Changes to the encoding of a table's columns, as JSON: values of other types and sizes, missing and odd fields."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any, Final

HUGE: Final = int("9" * 400)
"""An integer that float64 does not hold."""

VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, 1, -1, 2, 7, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 62, 1 << 63, HUGE, -HUGE,
    0.0, -0.0, 0.5, 1e-320, 5e-324, 1e308, -1e308, float("nan"), float("inf"), float("-inf"),
    "", "0", "x", "age", "1e999", "nan", "\ud800", "\0", "\x1b[2J", "%", "%Y%Y", "%d" * 60, "%q", "x" * 100_000,
    "number", "whole", "class", "text", "date", "log", "quantile", ",", "days", "boolean",
    [], {}, [[]], [None], [0.0], [1, 2], ["a", "a"], ["days"] * 40, ["city"], [0.0, 0.0], [1.0, float("nan")],
    [float(i) for i in range(5000)], [str(i) for i in range(50_000)], {"format": 1}, {"a": ["age"]},
    '{"version": "1.0"}',
)  # fmt: skip
"""Values that take the place of others."""

NESTED: Final = 100_000
"""Depth of lists in lists."""


def hostile_encoding(rng: random.Random, good: str) -> str:
    """Return an encoding made from a good one by a few changes, of its values or of its letters."""
    if rng.random() < 0.12:
        return _letters_changed(rng, good)
    said: Any = json.loads(good)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        _change(rng, said)
    return json.dumps(said)


def _letters_changed(rng: random.Random, good: str) -> str:
    at = rng.randrange(len(good))
    return rng.choice(
        (
            good[:at],
            good[:at] + good[at + 1 :],
            good[:at] + rng.choice('{}[],:"0e-N\ufeff\u202e') + good[at:],
            "[" * NESTED + "]" * NESTED,
            '{"format":1,"columns":' + "[" * NESTED,
            '{"a":' * NESTED,
            "NaN",
            "1" * 10_000,
            '""',
            "[1]",
            good + good,
            good.replace(":1,", f":{'1' * 5000},", 1),
            good.replace('"format":1', '"format":1,"format":1'),
        )
    )


def _change(rng: random.Random, said: Any) -> None:
    """Change one value, key or item anywhere in an encoding, mostly inside a column."""
    places = list(_places(said))
    if not places:
        return
    holder, key = rng.choice(places)
    match rng.randrange(6):
        case 0 | 1 | 2:
            holder[key] = rng.choice(VALUES)
        case 3:
            other, its = rng.choice(places)
            holder[key], other[its] = other[its], holder[key]
            if _is_endless(said):
                holder[key], other[its] = 0, 0
        case 4:
            del holder[key]
        case _ if isinstance(holder, list):
            holder += [holder[key]] * rng.choice((1, 1, 1000))
        case _:
            fields = ("fill", "mean", "deviation", "length", "listed", "one_hot", "transform", "quantiles", "decimal",
                      "parts", "origin", "date_format", "means", "deviations", "zoned", "form", "tokenizer", "values",
                      "kind", "name", "more", "series")  # fmt: skip
            holder[rng.choice(fields)] = rng.choice(VALUES)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each holder and key of a value in nested lists and mappings; of long lists, the first eight items."""
    if not isinstance(value, list | dict):
        return
    for key in range(min(len(value), 8)) if isinstance(value, list) else list(value):
        yield value, key
        yield from _places(value[key])


def _is_endless(said: Any) -> bool:
    try:
        json.dumps(said)
    except (ValueError, RecursionError):
        return True
    return False

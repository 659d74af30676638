"""Random columns: their values as Python has them, how a CSV file spells them, and the options that pack them.

A column has gaps only with a replacement of missing values. Spellings differ from row to row where the page on rows
says that they are one value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from random import Random
from typing import Any
from unicodedata import normalize

WORDS = (
    "Rome",
    "Oslo",
    "K\u00f6ln",
    "Z\u00fcrich",
    "caf\u00e9",
    "S\u00e3o Paulo",
    "a;b",
    "a,b",
    'say "x"',
    "1st",
    "\u0928\u0940",
    "-",
)
CODES = ("007", "7", "0", "00", "1e3", "1.10", "1.1", "12", "x7", "+5", "1 003", "5 %", "TRUE?")
GAPS = ("", "NA", "nan", "null", " ", "None", "<NA>", "N/A")
ZONES = (UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-3)))


@dataclass(frozen=True)
class Drawn:
    """A column.

    Attributes:
        kind: what it has.
        values: values of Python; None where one is missing.
        texts: the same as a CSV file has them.
        options: options of packing, by their names, for this column alone.
        in_csv: False for lists, which no CSV file has.
    """

    name: str
    kind: str
    values: list[Any]
    texts: list[str]
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    in_csv: bool = True


def drawn(rng: Random, name: str, rows: int, comma: bool) -> Drawn:
    """Draw a column; `comma` for decimal commas in files."""
    kind = rng.choice([kind for kind in KINDS if kind != "list" or rows > 1])
    return KINDS[kind](rng, name, rows, comma)


def _whole(rng: Random, name: str, rows: int, comma: bool) -> Drawn:
    values = [rng.randint(-3, 12) for _ in range(rows)]
    options = rng.choice([{}, {"classes": [name]}, {"whole": [name]}, {"standardise": [name]}, {"one_hot": [name]}])
    return _with_gaps(rng, Drawn(name, "whole", values, [_spelled(rng, v) for v in values], options))


def _large(rng: Random, name: str, rows: int, comma: bool) -> Drawn:
    some = [rng.choice([-1, 1]) * rng.randint(1 << 52, (1 << 63) - 1) for _ in range(4)]
    some += [some[0] + 1, -some[1], 3]
    values = [rng.choice(some) for _ in range(rows)]
    options = rng.choice([{"classes": [name]}, {"whole": [name]}])
    return _with_gaps(rng, Drawn(name, "large", values, [_spelled(rng, v) for v in values], options))


def _number(rng: Random, name: str, rows: int, comma: bool) -> Drawn:
    values = [rng.choice([round(rng.uniform(0, 9), 2), rng.uniform(0, 1), rng.uniform(0, 1) * 10 ** rng.randint(-6, 6)])
              for _ in range(rows)]  # fmt: skip
    if rng.random() < 0.2:
        values = [rng.choice([0.1, 0.25, 2.0, 1e-7, 1e16]) for _ in range(rows)]
    if rng.random() < 0.1:
        values = [values[0]] * rows
    choices = [{}, {"standardise": [name]}, {"log": [name]}, {"quantile": [name]}, {"classes": [name]}]
    options = rng.choice([*choices, {"log": [name], "standardise": [name]}])
    texts = [_spelled(rng, v) for v in values]
    if comma and "classes" not in options:
        texts = [text.replace(".", ",") for text in texts]
    return _with_gaps(rng, Drawn(name, "number", values, texts, options))


def _boolean(rng: Random, name: str, rows: int, comma: bool) -> Drawn:
    values = [rng.random() < 0.5 for _ in range(rows)]
    options = rng.choice([{}, {"whole": [name]}, {"standardise": [name]}, {"one_hot": [name]}])
    form = rng.choice([str, lambda v: str(v).lower(), lambda v: rng.choice([str(v), str(v).upper(), f" {v}"])])
    return _with_gaps(rng, Drawn(name, "boolean", values, [form(v) for v in values], options))


def _category(rng: Random, name: str, rows: int, comma: bool) -> Drawn:
    some = rng.sample(WORDS, rng.randint(2, 6))
    values = [rng.choice(some) for _ in range(rows)]
    texts = [rng.choice([v, v, f" {v}", f"{v} ", normalize("NFD", v)]) for v in values]
    values = [rng.choice([v, text]) for v, text in zip(values, texts, strict=True)]
    options = rng.choice([{}, {"classes": [name]}, {"one_hot": [name]}])
    return _with_gaps(rng, Drawn(name, "category", values, texts, options))


def _code(rng: Random, name: str, rows: int, comma: bool) -> Drawn:
    some = rng.sample(CODES, rng.randint(2, 6))
    values = [rng.choice(some) for _ in range(rows)]
    return _with_gaps(
        rng, Drawn(name, "code", values, [*values], rng.choice([{"classes": [name]}, {"one_hot": [name]}]))
    )


def _date(rng: Random, name: str, rows: int, comma: bool) -> Drawn:
    first, zone = datetime(2023, 12, 25), rng.choice([None, None, *ZONES])
    times = [first + timedelta(days=rng.randint(0, 400), minutes=rng.choice([0, 0, 90, 1439])) for _ in range(rows)]
    if zone is not None:
        values: list[Any] = [time.replace(tzinfo=zone) for time in times]
    elif rng.random() < 0.4:
        values = [time.date() for time in times]
    else:
        values = times
    texts = [_dated(rng, v) for v in values]
    parts = rng.sample(["days", "year", "month", "weekday", "hour", "year_cycle", "day_cycle"], 3)
    options = rng.choice([{"date": {name: parts}}, {"date": {name: parts}, "standardise": [name]}, {"classes": [name]}])
    return _with_gaps(rng, Drawn(name, "date", values, texts, options))


def _text(rng: Random, name: str, rows: int, comma: bool) -> Drawn:
    words = (
        "good",
        "bad",
        "film",
        "\u0928\u092e\u0938\u094d\u0924\u0947",
        "caf\u00e9",
        "cafe\u0301",
        "3",
        "1.0",
        "\n",
        " ",
        "\u2764\ufe0f",
    )
    values = ["x " + " ".join(rng.choices(words, k=rng.randint(0, 6))) for _ in range(rows)]
    options = rng.choice([{"text": [name]}, {"text": {name: 9}}, {"words": [name]}, {"words": {name: 4}}])
    return Drawn(name, "text", values, [*values], options)


def _list(rng: Random, name: str, rows: int, comma: bool) -> Drawn:
    element = rng.choice([lambda: rng.randint(-9, 1 << 60), lambda: rng.uniform(-1, 1), lambda: rng.choice(WORDS)])
    values = [[element() for _ in range(rng.randint(0, 4))] for _ in range(rows)]
    values[0] = values[0] or [element()]
    if len({*map(len, values)}) == 1:  # a list of lists of one length is an array
        values[-1] = [*values[-1], values[0][0]]
    standard = isinstance(values[0][0], float) and rng.random() < 0.5
    return Drawn(name, "list", values, [], {"standardise": [name]} if standard else {}, in_csv=False)


KINDS: dict[str, Callable[[Random, str, int, bool], Drawn]] = {
    "whole": _whole,
    "large": _large,
    "number": _number,
    "boolean": _boolean,
    "category": _category,
    "code": _code,
    "date": _date,
    "text": _text,
    "list": _list,
}


def _with_gaps(rng: Random, column: Drawn) -> Drawn:
    """Return the column with gaps and their replacement, or as it is."""
    if rng.random() < 0.5 or len(column.values) < 3:
        return column
    gaps = [rng.random() < 0.25 for _ in column.values]
    gaps[rng.randrange(len(gaps))] = False
    values = [None if gap else value for gap, value in zip(gaps, column.values, strict=True)]
    texts = [rng.choice(GAPS) if gap else text for gap, text in zip(gaps, column.texts, strict=True)]
    fill = rng.choice(["drop", *_fills(column)])
    return Drawn(column.name, column.kind, values, texts, column.options | {"missing": {column.name: fill}})


def _fills(column: Drawn) -> list[Any]:
    present = column.values[0]
    if "date" in column.options:
        return ["2024-01-01"]
    is_class = {"classes", "one_hot"} & column.options.keys() or column.kind in ("category", "code")
    if is_class or (column.kind == "boolean" and not column.options):
        return ["most", "other", *([] if isinstance(present, bool | date) else [present])]
    if column.kind == "boolean":
        return [0, 1]
    return [7, -2] if "whole" in column.options else [0.5, "mean", "median"]


def _spelled(rng: Random, value: float) -> str:
    """Return a spelling of a number."""
    if isinstance(value, int):
        return rng.choice(
            [str(value), str(value), f" {value}", f"{value}.0", f"+{value}" if value >= 0 else str(value)]
        )
    plain = str(value)
    return rng.choice([plain, plain, f"{plain}0" if "e" not in plain else plain, f" {plain} "])


def _dated(rng: Random, value: date) -> str:
    """Return a spelling of a date or a time."""
    if not isinstance(value, datetime):
        return rng.choice([value.isoformat(), f"{value.isoformat()} 00:00", f"{value.isoformat()}T00:00:00"])
    if value.tzinfo is None and not (value.hour or value.minute) and rng.random() < 0.5:
        return value.date().isoformat()
    return value.isoformat(sep=rng.choice(["T", " "]), timespec=rng.choice(["minutes", "seconds", "auto"]))

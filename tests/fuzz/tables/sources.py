"""The same table as lists, arrays, frames, files and requests.

A source that cannot hold a table is left out: CSV files have no lists, and some readers lose what others keep, such as
the zeros before a code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from fuzz.tables.columns import KINDS, Drawn, drawn


@dataclass(frozen=True)
class Table:
    """A random table: its columns, the options that pack it, and the form of its CSV file."""

    columns: list[Drawn]
    options: dict[str, Any]
    separator: str
    comma: bool

    @property
    def mapping(self) -> dict[str, list[Any]]:
        """The columns as lists of Python's values."""
        return {column.name: column.values for column in self.columns}

    @property
    def has_lists(self) -> bool:
        """True if a column has lists, which a CSV file cannot have."""
        return any(not column.in_csv for column in self.columns)


def table(seed: int) -> Table:
    """Draw a table of a seed."""
    rng = Random(seed)
    rows, comma = rng.choice([1, 2, 5, 12, 30]), rng.random() < 0.2
    names = rng.sample(["a", "b c", "d,e", "f;g", "h", "price, EUR", "label"], rng.randint(1, 5))
    columns = [drawn(rng, name, rows, comma) for name in names]
    if all(column.kind == "list" for column in columns):
        columns.append(drawn(Random(seed), "last", rows, comma))
    options: dict[str, Any] = {"decimal": ","} if comma else {}
    for column in columns:
        for name, value in column.options.items():
            options[name] = _both(options.get(name), value)
    joined = [column.name for column in columns if _is_float(column)]
    if joined and rng.random() < 0.4:
        rng.shuffle(joined)
        options["join"] = {"joined": joined}
    _split(rng, columns, options, rows)
    return Table(columns, options, rng.choice([";", "\t"]) if comma else rng.choice(",;\t|"), comma)


def later(given: Table, seed: int) -> Table:
    """Return new rows of the same columns, which may have values and gaps that the first ones lack."""
    rng = Random(seed + 1)
    rows = rng.choice([2 if given.has_lists else 1, 3, 20])
    columns = [
        replace(KINDS[column.kind](rng, column.name, rows, given.comma), options=column.options)
        for column in given.columns
    ]
    return replace(given, columns=columns)


def sources(given: Table, folder: Path, seed: int) -> Iterator[tuple[str, Any]]:
    """Yield the sources of a table, by their names."""
    rng = Random(seed)
    yield "lists", given.mapping
    yield "arrays", {column.name: _array(rng, column) for column in given.columns}
    frame, nullable = _pandas(given, nullable=False), _pandas(given, nullable=True)
    yield "pandas", frame
    yield "pandas, nullable", nullable
    plain = pl.DataFrame({column.name: _series(rng, column) for column in given.columns})
    yield "polars", plain
    plain.write_parquet(folder / "polars.parquet")
    yield "Parquet of polars", folder / "polars.parquet"
    nullable.to_parquet(folder / "pandas.parquet")
    yield "Parquet of pandas", folder / "pandas.parquet"
    lines = [json.dumps(row, default=_json) for row in rows_of(given)]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    yield "JSON lines", folder / "rows.jsonl"
    if not given.has_lists:
        yield from _csv(given, folder, rng, frame, plain)


def rows_of(given: Table) -> list[dict[str, Any]]:
    """Return the rows as objects; a missing value is null, or its member is left out of every third row."""
    names = [column.name for column in given.columns]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*given.mapping.values(), strict=True)]
    return [
        {name: value for name, value in row.items() if value is not None or number % 3}
        for number, row in enumerate(rows)
    ]


def requests_of(given: Table) -> list[dict[str, Any]]:
    """Return the rows as a server gets them."""
    return json.loads(json.dumps(rows_of(given), default=_json))


def _csv(given: Table, folder: Path, rng: Random, frame: Any, plain: Any) -> Iterator[tuple[str, Any]]:
    path, end = folder / "own.csv", rng.choice(["\n", "\r\n"])
    only = given.columns[0] if len(given.columns) == 1 else None
    if only is not None and (None in only.values or any(letter in only.name for letter in ",;")):
        return  # an empty line is no row, and commas inside the only name may separate two
    names = [rng.choice([column.name, column.name, f" {column.name}"]) for column in given.columns]
    lines = [names, *zip(*(column.texts for column in given.columns), strict=True)]
    text = end.join(given.separator.join(_quoted(rng, cell, given.separator) for cell in line) for line in lines)
    head = rng.choice(["", "", "\ufeff", f"sep={given.separator}{end}"])
    path.write_text(head + text + end, encoding="utf-8", newline="")
    yield "CSV", path
    lost = any(c.kind == "code" or (c.kind == "large" and "." in "".join(c.texts)) for c in given.columns)
    if not lost and not head.startswith("sep"):
        large = {name: "Int64" for name, c in zip(names, given.columns, strict=True) if c.kind == "large"}
        read = None
        with suppress(TypeError, ValueError):  # spellings of integers that pandas refuses
            read = pd.read_csv(path, sep=given.separator, dtype=large, decimal="," if given.comma else ".")
        if read is not None:
            yield "CSV read by pandas", read
    frame.to_csv(folder / "pandas.csv", index=False, sep=given.separator)
    yield "CSV of pandas", folder / "pandas.csv"
    plain.write_csv(folder / "polars.csv", separator=given.separator)
    yield "CSV of polars", folder / "polars.csv"


def _quoted(rng: Random, cell: str, separator: str) -> str:
    needs = any(letter in cell for letter in (separator, '"', "\n", "\r"))
    return '"' + cell.replace('"', '""') + '"' if needs or rng.random() < 0.1 else cell


def _array(rng: Random, column: Drawn) -> Any:
    """Return a column as an array of NumPy, of one of the dtypes that hold it; lists stay."""
    values, gaps = column.values, [value is None for value in column.values]
    if column.kind == "list":
        return values
    if column.kind == "date" and all(value is None or getattr(value, "tzinfo", None) is None for value in values):
        return np.array(
            ["NaT" if value is None else value.isoformat() for value in values],
            f"datetime64[{rng.choice(['us', 'ns'])}]",
        )
    first = next(value for value in values if value is not None)
    if isinstance(first, bool | int | float) and rng.random() < 0.5:
        return np.ma.masked_array([first if gap else value for gap, value in zip(gaps, values, strict=True)], gaps)
    if isinstance(first, float):
        return np.array([np.nan if gap else value for gap, value in zip(gaps, values, strict=True)])
    found = np.empty(len(values), object)
    found[:] = [np.nan if gap and rng.random() < 0.5 else value for gap, value in zip(gaps, values, strict=True)]
    return found if any(gaps) or isinstance(first, date) else np.array(values)


def _series(rng: Random, column: Drawn) -> Any:
    """Return a column of polars, in one of the dtypes that hold it."""
    dtype: Any = {"category": pl.Categorical, "code": pl.Categorical, "whole": pl.Int8}.get(column.kind)
    return pl.Series(column.name, column.values, dtype if rng.random() < 0.3 else None, strict=False)


def _pandas(given: Table, *, nullable: bool) -> Any:
    series: dict[str, Any] = {}
    for number, column in enumerate(given.columns):
        if column.kind in ("category", "code") and nullable and number % 2:
            series[column.name] = pd.Series(column.values, dtype="category")
            continue
        dtype = {"whole": "Int64", "large": "Int64", "boolean": "boolean"}.get(column.kind)
        exact = column.kind == "large" and None in column.values  # NumPy's floats do not hold these
        series[column.name] = pd.Series(column.values, dtype=dtype if nullable or exact else None)
    return pd.DataFrame(series)


def _json(value: object) -> str:
    if isinstance(value, date | datetime):
        return value.isoformat()
    raise TypeError(value)


def _both(a: Any, b: Any) -> Any:
    if a is None:
        return dict(b) if isinstance(b, dict) else [*b]
    if isinstance(a, dict) or isinstance(b, dict):
        first, second = (x if isinstance(x, dict) else dict.fromkeys(x, 0) for x in (a, b))
        return first | second
    return [*a, *b]


def _is_float(column: Drawn) -> bool:
    asked = column.options.keys()
    if column.kind in ("list", "text", "large") or "whole" in asked or "classes" in asked:
        return False
    return column.kind in ("number", "boolean", "whole") or "one_hot" in asked or "date" in asked


def _split(rng: Random, columns: list[Drawn], options: dict[str, Any], rows: int) -> None:
    if rows < 12 or rng.random() < 0.3:
        return
    options["split"] = {"train": 0.5, "test": 0.5}
    single = [column for column in columns if column.in_csv and None not in column.values]
    ordered = [column.name for column in single if column.kind in ("whole", "large", "number", "date")]
    by = rng.choice(["random", "stratified", "group", "time"])
    names = ordered if by == "time" else [column.name for column in single if column.kind not in ("text", "number")]
    if by != "random" and names:
        options |= {"by": by, "of": rng.choice(names)}

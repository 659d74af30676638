"""Rows that are encoded value by value: the same bits as by columns, and no answer where only columns know one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from compiler.data.options import PackOptions
from compiler.data.pack import packed
from runtime.rows.encoding.encoding import Encoding
from runtime.runs.raw import single_rows
from runtime.runs.raw.single_rows import SingleRows

DAYS = [f"2026-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(60)]
TABLE = {
    "size": [0.37 * i for i in range(60)],
    "city": [("Bergen", "Oslo", "Rome")[i % 3] for i in range(60)],
    "colour": [("blue", "red")[i % 2] for i in range(60)],
    "day": DAYS,
    "night": DAYS,
}


@pytest.fixture(scope="module")
def encoding() -> Encoding:
    options = PackOptions(
        one_hot=["city"],
        date={"day": ["days", "weekday", "year_cycle"], "night": ["month"]},
        join={"x": ["size", "city", "day"]},
        standardise=["size", "day"],
    )
    return packed(TABLE, options).encoding


def by_columns(encoding: Encoding, keys: Mapping[str, str], rows: list[dict[str, Any]]) -> dict[str, Any]:
    table = {name: np.array([row[name] for row in rows], float if name == "size" else object) for name in TABLE}
    arrays = encoding.encode(table, keys.values())
    return {feed: arrays[key] for feed, key in keys.items()}


def test_rows_have_the_bits_of_the_encoding_by_columns(encoding: Encoding):
    keys = {"x": "x", "colour": "colour", "night": "night"}
    single = SingleRows(encoding, keys)
    rows = [{name: values[i] for name, values in TABLE.items()} for i in (3, 4, 17, 3, 59)]
    for some in (rows[:1], rows, rows):  # dates that were seen before, too
        found = single.feeds(some)
        assert found is not None
        for feed, wanted in by_columns(encoding, keys, some).items():
            assert (found[feed].dtype, found[feed].tobytes()) == (wanted.dtype, wanted.tobytes()), feed


@pytest.mark.parametrize(
    "change", [{"day": "24.12.2026"}, {"day": None}, {"city": "Turin"}, {"city": 3}, {"size": "1"}, {"size": 1e300}]
)
def test_other_values_are_left_to_columns(encoding: Encoding, change: dict[str, Any]):
    row = {name: values[0] for name, values in TABLE.items()} | change
    assert SingleRows(encoding, {"x": "x"}).feeds([row]) is None


def test_dates_that_are_kept_are_bounded(encoding: Encoding, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(single_rows, "MAX_DATES", 2)
    single = SingleRows(encoding, {"night": "night"})
    for day in (*DAYS[:5], *DAYS[:5]):
        found = single.feeds([{"night": day}])
        assert found is not None
        assert found["night"].tolist() == [[float(day[5:7])]]

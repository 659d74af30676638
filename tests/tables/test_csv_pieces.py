"""Blocks of a CSV file by three parsers, which give the same values: at once, split, and record by record."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import numpy as np
import pytest

from runtime.errors import DataError
from runtime.rows.tables import csv_pieces as subject
from runtime.rows.tables.read_table import table_pieces

NAMES = ["id", "size", "city", "rooms"]
CELLS = {
    "plain": ["r-1", "Oslo", "a", "x y", " z ", "7"],
    "odd": ["r_1", "Zürich", "", "NA", "ä_ö"],
    "quoted": ['"Oslo"', '""', '" b "', '"7"'],
    "hard": ['"Oslo, Norway"', '"a ""b"" c"', '"two\nlines"', '"\r\n"'],
}


def by_csv(text: str) -> list[list[str]]:
    """The records by the parser of the standard library alone."""
    return [record for record in csv.reader(text.splitlines(keepends=True), strict=True) if record][1:]


def number(text: str) -> float | str:
    if "_" in text:
        return text
    try:
        return float(text)
    except ValueError:
        return text


@pytest.mark.parametrize("size", [1 << 21, 64, 300])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "kinds", [["plain"], ["plain", "odd"], ["plain", "quoted"], ["plain", "odd", "quoted", "hard"]]
)
def test_all_parsers_give_the_values_of_the_standard_library(tmp_path: Path, monkeypatch, kinds, end, size):
    monkeypatch.setattr(subject, "PIECE_CHARACTERS", size)
    draw = random.Random(repr((kinds, end, size)))
    texts = [cell for kind in kinds for cell in CELLS[kind]]
    numbers = ["1", "-2.5", "1e3", " 4 ", *(["", "NA", "1_0", '"3"'] if len(kinds) > 1 else [])]
    for _ in range(30):
        rows = [
            [draw.choice(texts), draw.choice(numbers), draw.choice(texts), draw.choice(numbers)]
            for _ in range(draw.randint(1, 40))
        ]
        text = end.join([",".join(NAMES), *(",".join(row) for row in rows)]) + (end if draw.random() < 0.5 else "")
        path = tmp_path / "t.csv"
        path.write_bytes(text.encode())
        wanted = [list(record) for record in by_csv(text)]
        pieces = list(table_pieces(path, None, numbers=["size", "rooms"]))
        for at, name in enumerate(NAMES):
            found = [value for piece in pieces for value in piece.columns[name].tolist()]
            is_number = name in ("size", "rooms")
            assert [number(x) if is_number and isinstance(x, str) else x for x in found] == [
                number(record[at]) if is_number else record[at] for record in wanted
            ], (text, name)


def lines_of(path: Path) -> list[int]:
    return [int(line) for piece in table_pieces(path, None, numbers=["size"]) for line in piece.numbers]


def test_rows_have_the_lines_in_which_they_begin(tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_text('id,size\n"a",1\nb,2\n')
    assert lines_of(path) == [2, 3]
    path.write_text('id,size\n"a\nb",1\nb,2\n')
    assert lines_of(path) == [2, 4]
    path.write_text("id,size\na,1\n\nb,2\n")
    assert lines_of(path) == [2, 4]


@pytest.mark.parametrize("text", ["id,size\na,1\nb\n", 'id,size\n"a",1\n"b","2","3"\n', 'id,size\n"a",1\nb,"2\n'])
def test_errors_of_records_are_those_of_the_whole_file(tmp_path: Path, text: str):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=r"t\.csv: (line 3 has|this is no table: a quote in line 3 is not closed)"):
        list(table_pieces(path, None, numbers=["size"]))


def test_the_fast_parsers_do_the_work(tmp_path: Path, monkeypatch):
    def refuse(*_: object) -> object:
        raise AssertionError("parsed record by record")

    monkeypatch.setattr(subject, "_records", refuse)
    path = tmp_path / "t.csv"
    path.write_text('id,size,city\n"r-1",1,"Oslo"\nr_2,,Zürich\n')
    [piece] = table_pieces(path, None, numbers=["size"])
    assert piece.columns["id"].tolist() == ["r-1", "r_2"]
    assert piece.columns["size"].tolist() == ["1", ""]
    path.write_text('id,size,city\n"r-1",1,"Oslo"\nr2,2.5,Rome\n')
    [piece] = table_pieces(path, None, numbers=["size"])
    np.testing.assert_array_equal(piece.columns["size"], [1, 2.5])
    assert piece.columns["city"].tolist() == ["Oslo", "Rome"]

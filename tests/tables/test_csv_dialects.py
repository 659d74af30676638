"""Separators of CSV files: what the first lines say, alike where rows are packed and where they are predicted."""

from pathlib import Path

import pytest
from safetensors.numpy import load_file

import prograd
from prograd import DataError
from runtime.rows.encoding.csv_dialect import Dialect, dialect_of
from runtime.rows.encoding.csv_rows import read_csv
from runtime.rows.tables import csv_pieces
from runtime.rows.tables.read_table import table_pieces

pytestmark = pytest.mark.usefixtures("here")


DIALECTS = [
    ("a,b\n1,2\n", ","),
    ("a;b\n1;2\n", ";"),
    ("a\tb\n1\t2\n", "\t"),
    ("a|b\n1|2\n", "|"),
    ("a\n1\n", ","),
    ("", ","),
    ("name;price, EUR;city\nx;1,5;Rome\ny;2;Oslo\n", ";"),
    ("name;price, EUR\nx;1\ny;2,5\n", ";"),
    ('"price, EUR";city\n1;Rome\n', ";"),
    ('"a;b",c\n1,2\n', ","),
    ("id,tags;list,n\n1,x;y,2\n", ","),
    ("a;b,c,d\n", ","),
    ('a;b,c\n"x\ny",1\n', ","),
    ("\n\na;b\n1;2", ";"),
    ("a b;c\n" + "1,5;2\n" * 20_000, ";"),
]


@pytest.mark.parametrize(("text", "separator"), DIALECTS)
def test_the_first_lines_tell_the_separator(text, separator):
    assert dialect_of(Path("a.csv"), text) == Dialect(separator)


@pytest.mark.parametrize("line", ["sep=;", '"sep=;"', "SEP=;", "sep=;;;"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("block", [1 << 21, 4])
def test_a_line_of_spreadsheets_names_the_separator(line, end, block, monkeypatch):
    Path("a.csv").write_text(end.join(["", line, "x, y;n", "a;1", "b;2", ""]), newline="")
    table = read_csv(Path("a.csv"))
    assert {name: values.tolist() for name, values in table.columns.items()} == {"x, y": ["a", "b"], "n": ["1", "2"]}
    assert table.lines.tolist() == [4, 5]
    monkeypatch.setattr(csv_pieces, "PIECE_CHARACTERS", block)
    pieces = list(table_pieces(Path("a.csv"), None))
    assert [text for piece in pieces for text in piece.columns["x, y"].tolist()] == ["a", "b"]
    assert [number for piece in pieces for number in piece.numbers.tolist()] == [4, 5]


def test_two_separators_that_fit_are_refused():
    Path("a.csv").write_text("name;price, EUR\nx;1,5\ny;2,5\n")
    sentence = (
        "a.csv: commas and semicolons separate the first lines equally well; put a line sep=, or sep=; before them"
    )
    for read in (read_csv, lambda path: list(table_pieces(path, None))):
        with pytest.raises(DataError) as caught:
            read(Path("a.csv"))
        assert str(caught.value) == sentence


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_packed_and_predicted_rows_have_the_same_separator(separator):
    rows = [["id, no", "text"], ["1", '"a, b; c|d\te"'], ["2", '"x"']]
    Path("a.csv").write_text("".join(f'"{a}"{separator}{b}\n' for a, b in rows))
    prograd.data.pack("a.csv", "a.safetensors", text=["text"])
    assert load_file("a.safetensors")["id, no"].tolist() == [1, 2]
    [piece] = table_pieces(Path("a.csv"), None)
    assert piece.columns["text"].tolist() == ["a, b; c|d\te", "x"]

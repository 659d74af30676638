"""One spelling of a value: numbers, booleans, dates and texts are the same class from whatever source they come."""

import logging
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from safetensors.numpy import load_file
from subjects.commands import told

import prograd
from prograd import DataError
from runtime.rows.encoding.class_texts import canonical, class_order, form_of
from runtime.rows.encoding.column import Column
from runtime.rows.encoding.tokens import words_of
from runtime.rows.encoding.values import spelled
from runtime.rows.tables.read_table import table_pieces


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.WARNING, "prograd")


def packed(table, path="rows.safetensors", **options):
    prograd.data.pack(table, path, force=True, **options)
    return load_file(path)


def encoded(column, values):
    return prograd.data.encode({column: values}, "rows.safetensors")[column].tolist()


SPELLINGS = [
    ("number", "1", ["1", "1.0", " 1 ", "+1", "1.", "1e0", 1, 1.0, np.int8(1), np.float32(1), Decimal("1.00")]),
    ("number", "0", ["0", "-0", "-0.0", 0, -0.0]),
    ("number", "0.1", ["0.1", ".1", "0.10", "1e-1", 0.1, Decimal("0.10")]),
    ("number", "9007199254740993", ["9007199254740993", "9007199254740993.0", 9007199254740993]),
    ("boolean", "true", ["true", "True", "TRUE", " true", True, np.bool_(True)]),
    ("boolean", "false", ["false", "False", "FALSE", False]),
    ("date", "2024-03-01", ["2024-03-01", "2024-03-01 00:00", "2024-03-01T00:00:00", date(2024, 3, 1)]),
    ("date", "2024-03-01", [datetime(2024, 3, 1), pd.Timestamp("2024-03-01"), np.datetime64("2024-03-01", "ns")]),
    ("date", "2024-03-01T10:30:00", ["2024-03-01 10:30", datetime(2024, 3, 1, 10, 30), "2024-03-01T10:30:00"]),
    ("date", "2024-03-01T10:30:00+00:00", ["2024-03-01T12:30+02:00", datetime(2024, 3, 1, 10, 30, tzinfo=UTC)]),
    ("text", "caf\u00e9", ["caf\u00e9", "cafe\u0301", " caf\u00e9\t"]),
    ("text", "007", ["007"]),
    ("text", "1.10", ["1.10"]),
]


@pytest.mark.parametrize(("form", "wanted", "values"), SPELLINGS)
def test_values_of_one_meaning_have_one_text(form, wanted, values):
    for value in values:
        given = value.astype("datetime64[us]").tolist() if isinstance(value, np.datetime64) else value
        given = given.tolist() if isinstance(given, np.generic) else given
        assert canonical(spelled(given), form) == wanted, value


def test_all_values_of_a_column_decide_what_they_are():
    assert form_of(["1", "2.0", ""]) == "number"
    assert form_of(["1", "2.0", "x"]) == "text"
    assert form_of(["1", "007"]) == "text"
    assert form_of(["true", "False", ""]) == "boolean"
    assert form_of(["true", "1"]) == "text"
    assert form_of(["2024-03-01", "2024-03-01T10:00"]) == "date"
    assert form_of(["2024-03-01", "2024-13-01"]) == "text"
    assert form_of(["", ""]) == form_of(["1" * 500]) == form_of(["1e999"]) == "text"


def test_classes_are_in_the_order_of_their_numbers():
    assert class_order("number", ["10", "2", "0.5", "-1"]) == ["-1", "0.5", "2", "10"]
    assert class_order("text", ["10", "2", "02", "x"]) == ["02", "10", "2", "x"]
    assert class_order("text", ["10", "2", "02"]) == ["02", "2", "10"]


FRAME = {
    "grade": [1.0, 2.0, None, 3.0],
    "flag": [True, False, None, True],
    "when": [datetime(2024, 3, 1), datetime(2024, 3, 2, 12), None, datetime(2024, 3, 1)],
    "big": [9007199254740993, 9007199254740992, None, 9007199254740993],
    "city": ["Rome", " Oslo", None, "Köln"],
}
OPTIONS = {
    "classes": ["grade", "when", "big"],
    "missing": {"grade": "most", "flag": "most", "when": "most", "big": "most", "city": "other"},
}


def sources() -> dict[str, object]:
    """Return the same table from every source."""
    nullable = pd.DataFrame({**FRAME, "big": pd.array(FRAME["big"], "Int64"), "grade": pd.array([1, 2, None, 3])})
    nullable["flag"] = nullable["flag"].astype("boolean")
    plain = pl.DataFrame(FRAME)
    plain.write_csv("polars.csv")
    plain.write_parquet("polars.parquet")
    nullable.to_csv("pandas.csv", index=False)
    nullable.to_parquet("pandas.parquet")
    nullable.to_json("pandas.jsonl", orient="records", lines=True, date_format="iso", date_unit="us")
    gaps = [False, False, True, False]
    masked = {
        name: np.ma.masked_array([value if value is not None else values[0] for value in values], gaps)
        for name, values in FRAME.items()
    }
    arrays = {
        "grade": np.array([1, 2, np.nan, 3], np.float32),
        "flag": np.array([True, False, None, True]),
        "when": np.array(["2024-03-01", "2024-03-02T12:00", "NaT", "2024-03-01"], "datetime64[ns]"),
        "big": masked["big"],
        "city": np.array(["Rome", " Oslo", "NA", "Köln"]),
    }
    return {
        "mapping": FRAME,
        "masked": masked,
        "arrays": arrays,
        "pandas": nullable,
        "pandas.csv read by pandas": pd.read_csv("pandas.csv", dtype={"big": "Int64"}),
        "polars": plain,
        "series": {name: plain[name] for name in FRAME},
        **{path: path for path in ("polars.csv", "polars.parquet", "pandas.csv", "pandas.parquet", "pandas.jsonl")},
    }


def test_every_source_packs_the_same_bytes_and_encodes_the_same_rows():
    found = sources()
    packed(FRAME, **OPTIONS)
    wanted = Path("rows.safetensors").read_bytes()
    rows = prograd.data.encode(FRAME, "rows.safetensors")
    assert {name: array.tolist() for name, array in rows.items()} == {
        "grade": [0, 1, 0, 2], "flag": [1, 0, 1, 1], "when": [0, 1, 0, 0], "big": [1, 0, 1, 1], "city": [2, 1, 3, 0],
    }  # fmt: skip
    for name, source in found.items():
        packed(source, "other.safetensors", **OPTIONS)
        assert Path("other.safetensors").read_bytes() == wanted, name
        again = prograd.data.encode(source, "rows.safetensors")
        assert {key: array.tolist() for key, array in again.items()} == {k: a.tolist() for k, a in rows.items()}, name


def test_what_is_not_known_is_replaced_with_a_warning_that_counts_it(caplog):
    packed({"city": ["Rome", "Oslo", "Rome", None]}, missing={"city": "most"})
    assert caplog.messages == []
    assert encoded("city", ["Bergen", None, "Oslo", "Paris", " Rome "]) == [1, 1, 0, 1, 1]
    assert caplog.messages == [
        "'city' has values that the packed rows lack, 'Bergen' the first, in 2 of 5 rows; they are taken as 'Rome'"
    ]


def test_a_replacement_that_is_a_number_is_the_class_of_that_number():
    rows = packed({"grade": [1, 2, None]}, classes=["grade"], missing={"grade": 1})
    assert rows["grade"].tolist() == [0, 1, 0]
    assert encoded("grade", [None, 3.0]) == [0, 0]
    with pytest.raises(DataError) as caught:
        packed({"city": ["a", None]}, missing={"city": "mean"})
    assert str(caught.value) == "'city' has classes, which have no mean; say most, a class, or drop for the row"


def test_codes_with_zeros_before_them_stay_apart(caplog):
    assert packed({"zip": ["01", "1", "2"]}, classes=["zip"])["zip"].tolist() == [0, 1, 2]
    assert caplog.messages == [
        "'zip' has '01' and '1', which are different classes here; programs that read numbers take them all for 1"
    ]
    assert encoded("zip", ["1", 1, 1.0, "01"]) == [1, 1, 1, 0]
    with pytest.raises(DataError, match=r"is '1\.0', which is none of its values"):
        encoded("zip", ["1.0"])


def test_numbers_that_were_spelled_as_if_they_differed_are_said(caplog):
    assert packed({"version": ["1.1", "1.10", "2.0"]}, classes=["version"])["version"].tolist() == [0, 0, 1]
    assert caplog.messages == ["'version' has '1.1' and '1.10', which are one number, and so the one class 1.1"]
    assert packed({"version": ["1.1", "1.10", "1.10.2"]}, classes=["version"])["version"].tolist() == [0, 1, 2]


def test_the_replacement_does_not_change_what_classes_are():
    packed({"x": ["1", "1.0", "other"]}, classes=["x"], missing={"x": "other"})
    assert encoded("x", ["1", "1.0", "other", None]) == [0, 1, 2, 2]
    packed({"x": ["1", "2.0", None]}, classes=["x"], missing={"x": "other"})
    assert encoded("x", ["1.0", 2, "other", None]) == [0, 1, 2, 2]


def test_files_of_before_know_booleans_by_any_spelling():
    column = Column("flag", "class", values=("False", "True"))
    assert column.encode(np.array(["true", "False", "TRUE"], object)).tolist() == [1, 0, 1]
    assert column.encode(np.array([True, False])).tolist() == [1, 0]


@pytest.mark.parametrize("values", [[True, False], np.array([True, False]), ["true", "false"], ["True", "False"]])
def test_booleans_are_classes_and_numbers_where_they_are_joined(values):
    table = {"flag": values, "age": [1, 2], "y": [3, 4]}
    assert packed(table)["flag"].tolist() == [1, 0]
    assert packed(table, join={"x": ["flag", "age"]})["x"].tolist() == [[1, 1], [0, 2]]
    for other in ([True], np.array([True]), ["TRUE"], pd.array([True], "boolean"), [1], [1.0]):
        assert prograd.data.encode({"flag": other, "age": [5]}, "rows.safetensors")["x"].tolist() == [[1, 5]]
    with pytest.raises(DataError) as caught:
        prograd.data.encode({"flag": [2], "age": [5]}, "rows.safetensors")
    assert str(caught.value) == "row 0 of 'flag' is '2', and its values are true and false"
    assert packed(table, whole=["flag"])["flag"].dtype == np.int64
    assert encoded("flag", ["false", True]) == [0, 1]
    assert packed(table, one_hot=["flag"], join={"x": ["flag"]})["x"].tolist() == [[0, 1], [1, 0]]


def test_booleans_and_numbers_are_not_taken_for_each_other():
    packed({"age": [0, 1, 2], "grade": [0, 1, 0]}, classes=["grade"])
    for source in ({"age": [True]}, {"age": np.array([True])}, pd.DataFrame({"age": [True]})):
        with pytest.raises(DataError) as caught:
            prograd.data.encode(source, "rows.safetensors")
        assert str(caught.value) == "row 0 of 'age' is 'true', which is no number; write one, as in 3.5"
    with pytest.raises(DataError, match="is 'true', which is none of its values"):
        encoded("grade", [True])


def test_dummies_of_pandas_are_joined():
    frame = pd.get_dummies(pd.DataFrame({"age": [1.0, 2, 3], "city": list("abc")}), columns=["city"])
    for source in (frame, frame.astype({"city_a": int})):
        assert packed(source, join={"x": ["age", "city_*"]})["x"].tolist() == [[1, 1, 0, 0], [2, 0, 1, 0], [3, 0, 0, 1]]


def test_whole_numbers_beyond_2_to_the_53rd_are_exact_beside_gaps():
    big = 9007199254740993
    frames = [pd.DataFrame({"id": pd.array([big, None, -big], "Int64")}), pl.DataFrame({"id": [big, None, -big]})]
    masked = np.ma.masked_array([big, 5, -big], [False, True, False])
    for source in (*frames, {"id": masked}, {"id": [big, None, -big]}, {"id": [big, np.nan, -big]}):
        assert packed(source, whole=["id"], missing={"id": big + 2})["id"].tolist() == [big, big + 2, -big]
    Path("id.csv").write_text(f'id\n{big}\n""\n-{big}\n')
    assert packed("id.csv", whole=["id"], missing={"id": str(big + 2)})["id"].tolist() == [big, big + 2, -big]
    with pytest.raises(DataError, match="'x' has masked elements; fill them in, or leave the rows out"):
        packed({"x": np.ma.masked_array([[1, 2]], [[True, False]])})
    with pytest.raises(DataError, match="'x' has masked elements; fill them in, or leave the rows out"):
        prograd.data.write("w.safetensors", {"x": np.ma.masked_array([1, 2], [True, False])})


def test_pieces_of_a_table_keep_large_whole_numbers_beside_gaps():
    big = 9007199254740993
    rows = [f'{{"id": {big}}}\n'] * 8192 + ['{"id": null}\n', '{"id": 0.5}\n'] * 10
    Path("id.jsonl").write_text("".join(rows))
    rows = packed("id.jsonl", classes=["id"], missing={"id": "most"})
    assert prograd.data.decode(rows["id"][[0, -2, -1]], "id", "rows.safetensors").tolist() == [
        str(big),
        str(big),
        "0.5",
    ]


def test_groups_and_strata_are_those_of_the_classes():
    big = 9007199254740992
    table = {"g": [str(big), str(big + 1), f"{big}.0", str(big + 1)] * 4, "x": range(16)}
    rows = packed(table | {"x": list(range(16))}, by="group", of="g", split={"a": 0.5, "b": 0.5}, classes=["g"])
    assert [sorted(set(rows["g"][rows[name]])) for name in ("a", "b")] in ([[0], [1]], [[1], [0]])


def test_arrays_of_dates_are_dates_in_every_unit():
    wanted = packed({"d": ["2024-01-01", "2024-06-01T12:00"]}, date={"d": ["month", "hour"]})["d"].tolist()
    for unit in ("m", "s", "ms", "us", "ns"):
        dates = np.array(["2024-01-01", "2024-06-01T12:00"], f"datetime64[{unit}]")
        assert packed({"d": dates}, date={"d": ["month", "hour"]})["d"].tolist() == wanted
        assert encoded("d", dates) == wanted
    with pytest.raises(DataError, match="is of type timedelta, which no row can be"):
        packed({"d": np.array([1, 2], "timedelta64[ns]")})


def test_dates_with_and_without_zones_are_not_mixed():
    plus = timezone(timedelta(hours=2))
    rows = packed({"d": ["2024-03-01T10:00+02:00", datetime(2024, 3, 1, 10, tzinfo=plus)]}, date={"d": ["hour"]})
    assert rows["d"].tolist() == [[8], [8]]
    assert told(DataError, lambda: encoded("d", ["2024-03-01T10:00"])) == (
        "row 0 of 'd' is '2024-03-01T10:00'; it has no zone, and the packed dates differ; write all dates alike"
    )
    with pytest.raises(DataError) as caught:
        packed({"d": ["2024-03-01T10:00", None, "2024-03-01T10:00Z"]}, date=["d"], missing={"d": "2024-01-01"})
    assert str(caught.value) == (
        "row 2 of 'd' is '2024-03-01T10:00Z'; it has a zone, and the dates before it differ; write all dates alike"
    )


def test_missing_values_are_those_of_pandas_with_blanks_around_them():
    words = ["", " ", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan", "null", "None", "NaT", " NA ", None]
    Path("m.csv").write_text("x,y\n" + "".join(f"{word or ''},1\n" for word in words) + "3,1\n")
    assert packed("m.csv", missing={"x": 7})["x"].tolist() == [7] * len(words) + [3]
    assert packed({"x": [*words, 3]}, missing={"x": 7})["x"].tolist() == [7] * len(words) + [3]
    assert encoded("x", [pd.NA, pd.NaT, np.nan, Decimal("NaN"), 4]) == [7, 7, 7, 7, 4]


def test_texts_keep_their_blanks_from_every_source():
    Path("t.csv").write_text('t,n\n" a b ",1\nc,2\n')
    wanted = packed("t.csv", text=["t"])["t"].tolist()
    assert bytes(number - 1 for number in wanted).decode() == " a b c"
    assert packed({"t": [" a b ", "c"], "n": [1, 2]}, text=["t"])["t"].tolist() == wanted


@pytest.mark.parametrize(
    "texts",
    [
        ["$3.50", "$4"],
        ["3 %", "5 %"],
        ["1 003", "2 010"],
        ["1'000", "2'000"],
        ["1_000", "2_000_000"],
        ["1.000.000", "2.500.000"],
        ["\u22121.5", "\u22122"],
        ["(3)", "(4.5)"],
        ["5kg", "7.5kg"],
        ["5 m²", "7m²"],
        ["€5k", "€7k"],
        ["12:30", "1:05"],
        ["0:59:07.5", "1:02:30"],
    ],
    ids=str,
)
def test_numbers_with_signs_become_classes_with_a_note(texts, caplog):
    packed({"price": texts * 3})
    odd = next(text for text in texts if not text.isdecimal())
    assert caplog.messages == [
        f"'price' has texts such as {odd!r}, which become 2 classes and no numbers; write numbers alone, "
        "or say classes=['price']"
    ]
    caplog.clear()
    packed({"price": texts * 3}, classes=["price"])
    assert caplog.messages == []


@pytest.mark.parametrize(
    "texts", [["1kg", "2lb"], ["1st", "2nd"], ["A1", "A2"], ["1.2.3", "1.2.4"], ["3D", "D3"], ["1__0", "2_0"]], ids=str
)
def test_other_texts_with_digits_are_classes_without_a_note(texts, caplog):
    packed({"kind": texts * 3})
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't stop_me 3 times", ["don", "t", "stop_me", "3", "times"]),
        ("नमस्ते दुनिया!", ["नमस्ते", "दुनिया"]),
        ("Cafe\u0301, CAF\u00c9", ["caf\u00e9", "caf\u00e9"]),
        ("กิน ข้าว", ["กิน", "ข้าว"]),
        ("क्\u200dष x\u200d ", ["क्\u200dष", "x"]),
        ("\u0301 ❤\ufe0f -", []),
    ],
)  # fmt: skip
def test_words_keep_the_marks_of_their_letters(text, words):
    assert words_of(text) == words


def test_names_of_columns_have_no_blanks_around_them():
    Path("a.csv").write_text("age, city\n1,x\n2,z\n")
    wanted = packed("a.csv")
    read = pd.read_csv("a.csv")
    read.to_parquet("a.parquet")
    read.to_json("a.jsonl", orient="records", lines=True)
    for source in (read, pl.read_csv("a.csv"), read.to_dict("list"), "a.parquet", "a.jsonl"):
        found = prograd.data.encode(source, "rows.safetensors")
        assert {name: array.tolist() for name, array in found.items()} == {k: a.tolist() for k, a in wanted.items()}
    assert [sorted(piece.columns) for piece in table_pieces(Path("a.parquet"), ["city"])] == [["city"]]
    with pytest.raises(DataError, match=r"^the frame has two columns 'age'$"):
        packed(read.rename(columns={" city": "age "}))
    with pytest.raises(DataError, match=r"^the mapping has two columns 'age'$"):
        packed({"age": [1], " age": [2]})

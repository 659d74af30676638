"""Thirty-two mistakes that new users make with data, predictions and the server: every answer names what to do."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from subjects.serving import Serving, refusal

import prograd
from compiler.__main__ import main as compiler_main
from prograd import Program, layers, ops, sgd
from runtime.__main__ import main as runtime_main

NEW = "age,city,when\n31,Oslo,2026-01-02\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PROGRAD_TOKEN", raising=False)
    rows = [f"{20 + i},{('Oslo', 'Rome')[i % 2]},2025-01-{i + 1:02},{('cat', 'dog')[i % 2]}" for i in range(20)]
    Path("t.csv").write_text("age,city,when,pet\n" + "\n".join(rows) + "\n")
    prograd.data.pack("t.csv", "rows.safetensors", standardise=["age"], date={"when": ["days"]}, one_hot=["city"])
    program = Program("pets", seed=1)
    age, city = program.input("age", "float32", ("batch",)), program.input("city", "float32", ("batch", 2))
    when, pet = program.input("when", "float32", ("batch", 1)), program.input("pet", "int64", ("batch",))
    scores = layers.dense(ops.concat(age[:, None], city, when, axis=1), "out", 2)
    program.minimize(ops.softmax_cross_entropy(scores, pet), sgd(0.01))
    program.outputs(probabilities=ops.softmax(scores))
    program.data("rows.safetensors", shuffle=False, remainder="drop")
    program.training(epochs=1)
    program.compile(batch=4).save("p.pb")
    Path("new.csv").write_text(NEW)
    return tmp_path


PACK = [
    ("age\n1\n2\nx\n", [], "line 4: 'age' is 'x', and 2 rows have numbers; mend it, or empty it and say --missing "
     "age=mean; --class age takes all as classes, --drop age leaves the column out"),
    ("age\n1\n\"\"\n", [], "line 3: 'age' has no value; say what stands for it, as in --missing age=mean, or "
     "--missing age=drop"),
    ("pay\n\"1,5\"\n\"2,5\"\n", [], "line 2: 'pay' is '1,5'; numbers have a point and no commas; --decimal , takes "
     "decimal commas; --class pay takes all as classes, --drop pay leaves the column out"),
    ("when\n2026-01-01\n2026-01-02\n", [], "'when' has dates, which are no classes; --date when makes numbers of "
     "them, --drop when leaves the column out, and --by time=when still splits by it; --class when takes them as "
     "classes"),
    ("when\n24.12.2025\n", ["--date", "when"], "line 2: 'when' is '24.12.2025', which is not a date like 2026-11-23; "
     "write it so, or pack with --date-format"),
    ("when\n2025-12-24\n", ["--date", "whem"], "date: there is no column 'whem'; did you mean 'when'?"),
    ("when\n2025-12-24\n", ["--date", "when=weeks"], "date: a date has no part 'weeks'; did you mean 'weekday'?"),
    ("age\n1\n", ["--log", "agee"], "log: there is no column 'agee'; did you mean 'age'?"),
    ("city\nOslo\nRome\n", ["--log", "city"], "log: the column 'city' has classes, and only columns of single numbers "
     "have logarithms, and one transform; leave it out"),
    ("pay\n-5\n", ["--log", "pay", "--standardise", "pay"], "line 2: 'pay' is -5, and log(1 + x) takes numbers "
     "above -1; leave out --log pay"),
    ("load\n1\n2\n3\n", ["--window", "8"], "a window takes 8 rows, and the table has 3; give more rows"),
    ("load\n1\n2\n3\n", ["--target", "load"], "target: the value behind each window says nothing without them; give "
     "window too"),
    ("load\n1\n2\n3\n", ["--window", "2", "--target", "laod"], "target: there is no column 'laod'; did you mean "
     "'load'?"),
    ("load\n1\n2\n3\n", ["--window", "2", "--by", "stratified=load"], "by=stratified: windows are split in the order "
     "of their rows, or by group, in series that no window leaves; leave it out"),
    ("note\ngood day\nbad day\n", ["--window", "2", "--words", "note"], "window: windows are of numbers and classes, "
     "and 'note' has arrays, lists or texts; leave it out by drop"),
    ("1,2\n3,4\n", [], "t2.csv: the first line names columns, and it has numbers, '1' the first; put a line with names "
     "before it"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "options", "said"), PACK)
def test_mistakes_of_packing(text: str, options: list[str], said: str, capsys):
    Path("t2.csv").write_text(text)
    capsys.readouterr()
    assert compiler_main(["data", "pack", "t2.csv", "-o", "t2.safetensors", *options]) in (2, 4)
    assert capsys.readouterr().err == f"compiler: {said}\n"


PREDICT = [
    (NEW.replace("city", "town"), ["--out", "o.csv"], "new.csv: the rows have no column 'city'; add it"),
    (NEW.replace("Oslo", "Olso"), ["--out", "o.csv"], "new.csv: line 2: 'city' is 'Olso', which is none of its values; "
     "did you mean 'Oslo'?"),
    (NEW.replace("31", ""), ["--out", "o.csv"], "new.csv: line 2: 'age' has no value; "
     "fill it in, or pack the training rows with --missing age="),
    (NEW.replace("2026-01-02", "2.1.2026"), ["--out", "o.csv"], "new.csv: line 2: 'when' is '2.1.2026', which is not a "
     "date like 2026-11-23; write it so, or pack with --date-format"),
    (NEW.partition("\n")[0] + "\n", ["--out", "o.csv"], "new.csv: the table has no rows; "
     "give some below the names of its columns"),
    (NEW, ["--out", "o.xlsx"], "--out o.xlsx: tables of predictions are called *.csv, *.tsv, *.jsonl or *.parquet"),
    (NEW, ["--out", "new.csv"], "new.csv: the file exists; --force replaces it"),
    (NEW, ["--out", "nowhere/o.csv"], "nowhere/o.csv: there is no such folder"),
    (NEW, ["--id", "age"], "--id names the rows of a table of predictions; give --out predictions.csv"),
    (NEW, ["--out", "o.csv", "--entry", "train"], "--out is a table of predictions, and the entry 'train' trains; say "
     "--entry predict"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "options", "said"), PREDICT)
def test_mistakes_of_predicting_tables(text: str, options: list[str], said: str, capsys):
    Path("new.csv").write_text(text)
    capsys.readouterr()
    command = ["execute", "p.pb", "--entry", "predict", "--data", "new.csv", "-q", *options]
    assert runtime_main(command) in (2, 4)
    assert capsys.readouterr().err == f"runtime: {said}\n"
    assert not Path("o.csv").exists()


def test_a_file_that_only_says_that_it_is_compressed(capsys):
    Path("new.csv.gz").write_text(NEW)
    command = ["execute", "p.pb", "--entry", "predict", "--data", "new.csv.gz", "--out", "o.csv", "-q"]
    assert runtime_main(command) == 4
    said = capsys.readouterr().err
    assert said.startswith("runtime: new.csv.gz: this is no whole file of gzip: ")
    Path("new.csv.gz").write_bytes(gzip.compress(NEW.encode()))
    assert runtime_main(command) == 0


def test_numbers_that_may_be_encoded_already():
    with pytest.raises(prograd.UsageError) as caught:
        prograd.load("p.pb").predict({"age": [31.0], "city": np.eye(2, dtype=np.float32)[:1], "when": [[1.0]]})
    assert str(caught.value) == (
        "'age' may be numbers of the table or encoded ones, which differ; "
        "say raw=True for those of the table, raw=False for encoded ones"
    )


SERVE = [
    (
        {"age": "old", "city": "Oslo", "when": "2026-01-02"},
        "row 0 of 'age' is 'old', which is no number; write one, as in 3.5",
    ),
    ({"age": 31, "City": "Oslo", "when": "2026-01-02"}, "row 0 has no 'city'; did you mean 'City'?"),
    (
        [{"age": 31, "city": "Oslo", "when": "2026-01-02"}, 5],
        "row 1 is of type int, and the rows before it are objects; send an object for each row",
    ),
]


@pytest.mark.parametrize(("row", "said"), SERVE)
def test_mistakes_of_requests(row: object, said: str):
    with Serving(prograd.load("p.pb")) as serving:
        assert refusal(serving.port, json.dumps(row).encode()) == (400, said)


def test_a_server_for_everybody(capsys):
    assert runtime_main(["serve", "p.pb", "--host", "0.0.0.0"]) == 2
    assert capsys.readouterr().err == (
        "runtime: --host 0.0.0.0: other machines reach this address, so requests must bring a token; "
        "name a file with it by --token-file, or set PROGRAD_TOKEN\n"
    )


def test_weights_as_pytorch_saves_them(capsys):
    Path("x.pt").write_bytes(b"PK")
    assert runtime_main(["execute", "p.pb", "--entry", "predict", "--load", "x.pt", "--data", "new.csv", "-q"]) == 4
    assert capsys.readouterr().err == (
        "runtime: x.pt: PyTorch's own files are pickles, which may run code and are never read; write the weights "
        "alone by safetensors.torch.save_file(torch.load('x.pt', weights_only=True), 'x.safetensors'), "
        "and load x.safetensors with layout torch\n"
    )


def test_none_of_the_thirty_three_mistakes_is_lost():
    assert len(PACK) + len(PREDICT) + len(SERVE) + 4 == 33

"""Encodings that no packing writes: each verb that reads one ends with a sentence and a documented code."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hostile import judge
from hostile.encodings import hostile_encoding
from subjects.commands import told

import prograd
from compiler.__main__ import main as compiler
from prograd import Program, ProgramError, adam, layers, ops
from prograd_proto.files import load, save
from runtime.__main__ import main as runtime
from runtime.files.tensor_files import read_metadata

ROWS = 32

TABLE = {
    "age": [None, *range(20, 19 + ROWS)],
    "size": [0.25 * i for i in range(ROWS)],
    "income": [float(i * i) for i in range(ROWS)],
    "city": [("Rome", "Oslo", "Bergen")[i % 3] for i in range(ROWS)],
    "colour": [("red", "blue")[i % 2] for i in range(ROWS)],
    "when": [f"2026-01-{1 + i % 28:02}" for i in range(ROWS)],
    "note": ["a b c"] * ROWS,
    "id": list(range(ROWS)),
    "flag": [bool(i % 2) for i in range(ROWS)],
    "pet": [("cat", "dog")[i % 2] for i in range(ROWS)],
}

ALL = ["age", "size", "income", "colour", "when", "flag"]

WAYS = (
    ("compiler check", compiler, ["check", "m.pb"]),
    ("runtime check", runtime, ["check", "m.pb"]),
    ("compiler export", compiler, ["export", "m.pb", "-o", "m.onnx", "--raw", "--force"]),
    ("runtime serve", runtime, ["serve", "m.pb", "--port", "0", "-q", "--max-time", "1ms"]),
    ("runtime execute", runtime, ["execute", "m.pb", "-q", "--entry", "evaluate", "--data", "t.csv"]),
    ("runtime execute", runtime, ["execute", "m.pb", "-q", "--entry", "predict", "--data", "t.csv", "--out", "o.csv",
                                  "--force"]),
)  # fmt: skip


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROGRAD_ENGINE", "reference")
    made("all.pb", ALL, 9, {"words": {"note": 8}, "whole": ["id"]})
    made("few.pb", ["age", "size", "colour"], 4, {"drop": ["income", "when", "note", "id", "flag"]})
    lines = [
        ",".join("" if value is None else str(value) for value in row) for row in zip(*TABLE.values(), strict=True)
    ]
    Path("t.csv").write_text("\n".join([",".join(TABLE), *lines]))
    return tmp_path


def made(name: str, joined: list[str], width: int, more: dict[str, object]) -> None:
    """Save a program over rows that are packed in many ways, of which ONNX has some."""
    options = {"standardise": [c for c in ("age", "when") if c in joined], "date": {"when": ["days", "week_cycle"]},
               "log": ["size"], "quantile": ["income"], "one_hot": ["colour"], "missing": {"age": "mean",
               "city": "other"}}  # fmt: skip
    options = {key: value for key, value in options.items() if key not in ("date", "quantile") or "when" in joined}
    prograd.data.pack(TABLE, f"{name}.safetensors", join={"x": joined}, split={"train": 1.0}, **options, **more)
    program = Program(name, seed=1)
    x, city = program.input("x", "float32", ("batch", width)), program.input("city", "int64", ("batch",))
    pet = program.input("pet", "int64", ("batch",))
    parts = [x, layers.embedding(city, "cities", count=4, size=4)]
    if "words" in more:
        note, number = program.input("note", "int64", ("batch", 8)), program.input("id", "int64", ("batch",))
        parts += [ops.mean(layers.embedding(note, "words", count=8, size=4), axis=1)]
        parts += [ops.cast(ops.reshape(number, shape=("batch", 1)), dtype="float32") / 32.0]
    scores = layers.dense(ops.concat(*parts, axis=1), "out", 2)
    program.minimize(ops.softmax_cross_entropy(scores, pet), adam(0.01))
    program.outputs(probabilities=ops.softmax(scores))
    program.data(f"{name}.safetensors", shuffle=False, remainder="drop")
    program.training(epochs=1)
    program.compile(batch=16).save(name)


def with_encoding(name: str, text: str) -> None:
    program = load(name)
    program.data.encoding = text
    save(program, "m.pb", force=True)


@pytest.mark.thorough
@pytest.mark.parametrize("first", range(0, 400, 25))
def test_a_hostile_encoding_ends_every_verb_with_a_sentence_and_a_code(here: Path, first: int):
    pytest.importorskip("onnx")
    good = {name: load(name).data.encoding for name in ("all.pb", "few.pb")}
    ended: set[object] = set()
    for seed in range(first, first + 25):
        rng = random.Random(seed)
        name = rng.choice(sorted(good))
        with_encoding(name, hostile_encoding(rng, good[name]))
        for verb, command, words in WAYS:
            code, out, err, seconds = judge.call(command, words)
            assert not judge.faults(verb, words, code, out, err, seconds), f"seed {seed}: {verb}: {err}"
            ended.add(code)
        for rows in ([{key: values[i] for key, values in TABLE.items()} for i in (1, 2)], TABLE):
            with suppress(prograd.ExecutionError, ProgramError):
                prograd.load("m.pb", engine="reference").predict(rows)
    assert 3 in ended
    assert first or 0 in ended, "some encodings are harmless"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("column", "field", "value", "said"),
    [
        ("age", "mean", float("nan"), "it has NaN, which is not finite"),
        ("age", "mean", 10**400, "'mean' of the column 'age' is " + "1" + "0" * 39 + "…, not a finite number"),
        ("age", "deviation", 0, "'deviation' of the column 'age' is 0, not a finite number above 0"),
        ("age", "fill", "x", "the column 'age' has 'x' for a missing value, which is none of its own"),
        ("age", "length", 3, "the column 'age' of the kind 'number' has 'length', which it cannot have"),
        ("age", "name", 7, "a column has the name 7, which is no text"),
        ("age", "kind", "numbers",
         "the column 'age' is of the kind 'numbers'; there are number, whole, class, text, date"),
        ("age", "values", ["x"], "the column 'age' is a number with other values than false and true"),
        ("note", "length", 1 << 62,
         "'length' of the column 'note' is 4611686018427387904, not a size of at most 1048576"),
        ("note", "tokenizer", '{"version":"1.0"}',
         "'tokenizer' of the column 'note' is '{\"version\":\"1.0\"}', not a tokenizer that prograd writes"),
        ("city", "values", ["a", "a"], "'values' of the column 'city' is ['a', 'a'], not a list of different texts"),
        ("city", "values", ["\ud800"], "'values' of the column 'city' is ['\\ud800'], not a list of different texts"),
        ("city", "values", [], "the column 'city' has no classes"),
        ("city", "fill", "Paris", "the column 'city' has 'Paris' for a missing value, which is none of its own"),
        ("when", "date_format", "%Y%Y", "'date_format' of the column 'when' is '%Y%Y', not a format of dates"),
        ("when", "parts", ["days", "days"],
         "'parts' of the column 'when' is ['days', 'days'], not a list of different parts of dates"),
        ("when", "means", [1.0], "the column 'when' has other means and deviations than its parts of dates"),
        ("income", "quantiles", [2.0, 1.0],
         "'quantiles' of the column 'income' is [2.0, 1.0], not a list of 2 to 1001 finite numbers that rise"),
        ("income", "transform", "log",
         "the column 'income' has quantiles without their transform, or one without the other"),
    ],
)  # fmt: skip
def test_a_damaged_field_is_named(here: Path, capsys, column: str, field: str, value: object, said: str):
    encoding = json.loads(load("all.pb").data.encoding)
    next(each for each in encoding["columns"] if each["name"] == column)[field] = value
    with_encoding("all.pb", json.dumps(encoding))
    capsys.readouterr()
    for command, words in ((compiler, ["check", "m.pb"]), (runtime, ["serve", "m.pb", "--max-time", "1ms", "-q"])):
        assert command(words) == 3
        start = "compiler: m.pb: " if command is compiler else "runtime: "
        assert capsys.readouterr().err == f"{start}program 'all.pb': the encoding of its columns is damaged: {said}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "it is nested too deeply"),
        ('{"format":1,"format":1}', "it has a key twice"),
        ('{"format":true}', "it is not of format 1"),
        ('{"format":1,"more":1}', "it has 'more', which is unknown"),
        ('{"format":1,"columns":[{"name":"a","kind":"whole"},{"name":"a","kind":"whole"}],"joined":{}}',
         "it has two columns of one name"),
        ('{"format":1,"columns":[{"name":"1","kind":"number"}],"joined":{"x":[1]}}',
         "it joins columns as 'x' that it has not"),
        ('{"format":1,"columns":[{"name":"a","kind":"whole"}],"joined":{"x":["a"]}}', "it joins texts or lists as 'x'"),
    ],
)  # fmt: skip
def test_a_file_of_rows_with_a_damaged_encoding_is_named(here: Path, text: str, said: str):
    prograd.data.write("rows.safetensors", {"x": [1]}, metadata={"prograd_columns": text}, force=True)
    with pytest.raises(prograd.DataError) as caught:
        prograd.data.decode([0], "x", "rows.safetensors")
    assert str(caught.value) == f"rows.safetensors: the encoding of its columns is damaged: {said}"


def test_an_encoding_of_other_rows_than_those_of_the_feed_is_refused_before_rows_are_read(here: Path, capsys):
    pytest.importorskip("onnx")
    encoding = json.loads(load("few.pb").data.encoding)
    encoding["joined"]["x"] = ["age", "size"]
    with_encoding("few.pb", json.dumps(encoding))
    said = "the feed 'x' is float32[16, 4], and the encoding of 'x' makes 2 numbers of a row\n"
    capsys.readouterr()
    assert runtime(["execute", "m.pb", "-q", "--entry", "predict", "--data", "t.csv", "--out", "o.csv"]) == 4
    assert capsys.readouterr().err == f"runtime: {said}"
    assert compiler(["export", "m.pb", "-o", "m.onnx", "--raw"]) == 3
    assert capsys.readouterr().err == f"compiler: to_onnx: {said}".replace("16", "batch")
    assert not Path("m.onnx").exists()


def test_many_classes_take_memory_by_rows_and_not_by_their_square(here: Path):
    classes = [f"c{i}" for i in range(200_000)]
    encoding = {"format": 1, "columns": [{"name": "c", "kind": "class", "values": classes, "one_hot": True}]}
    text = json.dumps(encoding | {"joined": {}})
    prograd.data.write("rows.safetensors", {"x": [1]}, metadata={"prograd_columns": text}, force=True)
    found = prograd.data.encode({"c": ["c7"]}, "rows.safetensors")["c"]
    assert found.shape == (1, len(classes))
    assert np.flatnonzero(found).tolist() == [7]


def test_a_number_that_overflows_when_it_is_scaled_is_named(here: Path):
    column = {"name": "a", "kind": "number", "mean": -1e308, "deviation": 5e-324}
    text = json.dumps({"format": 1, "columns": [column], "joined": {}})
    prograd.data.write("rows.safetensors", {"x": [1]}, metadata={"prograd_columns": text}, force=True)
    with pytest.raises(prograd.DataError) as caught:
        prograd.data.encode({"a": [1.0, 2.0]}, "rows.safetensors")
    assert str(caught.value) == "row 0 of 'a' has 1.0, which float32 does not hold when it is scaled"
    assert np.isinf(prograd.data.decode(np.float32([3e38]), "a", "rows.safetensors")).tolist() == [False]


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"date_format": "%Y%Y", "date": ["when"]}, prograd.UsageError,
         "date_format='%Y%Y': it is no format of strptime that has each part once; %d.%m.%Y is one"),
        ({"text": {"note": 1 << 21}}, prograd.UsageError,
         "text: a row of 'note' has 2097152 numbers; at most 1048576 are supported"),
        ({"missing": {"age": float("nan")}}, prograd.DataError,
         "'age' is a column of numbers; for a missing one say a number, mean, median, or drop for the row, not nan"),
    ],
)  # fmt: skip
def test_packing_refuses_what_no_reader_takes(here: Path, options: dict[str, object], error: type, said: str):
    assert told(error, lambda: prograd.data.pack(TABLE, "new.safetensors", **options)) == said
    assert not Path("new.safetensors").exists()


def test_exponents_out_of_all_bounds_are_texts_and_no_whole_numbers(here: Path):
    endless = "0e-99999999999999999999999"
    prograd.data.pack({"c": [endless, "1"], "n": [1, 2]}, "new.safetensors", classes=["c"], whole=["n"])
    assert prograd.data.encode({"c": ["1", endless]}, "new.safetensors")["c"].tolist() == [1, 0]
    with pytest.raises(prograd.DataError) as caught:
        prograd.data.encode({"n": ["1", endless]}, "new.safetensors")
    assert str(caught.value) == "row 1 of 'n' is 0.0, which is no whole number"


def test_texts_that_utf8_cannot_write_are_no_classes(here: Path):
    assert told(prograd.DataError, lambda: prograd.data.pack({"c": ["a", "\ud800"]}, "new.safetensors")) == (
        "the rows cannot be encoded: 'values' of the column 'c' is ['a', '\\ud800'], not a list of different texts"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}},
        {"model": {"type": "BPE", "vocab": [], "merges": [["x", "y"]]}},
        {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [["a", "b"]]}},
        {"model": {"type": "BPE"}},
        {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}},
        {"normalizer": {"type": "Replace", "pattern": {"Regex": "(x+x+)+y"}, "content": ""}},
        {"padding": {"strategy": {"Fixed": 1 << 40}, "direction": "Right", "pad_id": 0, "pad_type_id": 0,
                     "pad_token": "x", "pad_to_multiple_of": None}},
        {"decoder": None},
        {"added_tokens": [{"id": 1, "content": "x"}]},
    ],
)  # fmt: skip
def test_a_tokenizer_that_packing_does_not_write_is_refused(tmp_path: Path, monkeypatch, change: dict[str, object]):
    pytest.importorskip("tokenizers")
    monkeypatch.chdir(tmp_path)
    texts = {"text": ["some words of a text"] * 20}
    prograd.data.pack(texts, "rows.safetensors", bpe={"text": 12}, vocabulary=300)
    good = json.loads(read_metadata(Path("rows.safetensors"))["prograd_columns"])
    column = good["columns"][0]
    column["tokenizer"] = json.dumps(json.loads(column["tokenizer"]) | change)
    metadata = {"prograd_columns": json.dumps(good)}
    prograd.data.write("rows.safetensors", {"x": [1]}, metadata=metadata, force=True)
    with pytest.raises(prograd.DataError, match="damaged: "):
        prograd.data.encode(texts, "rows.safetensors")

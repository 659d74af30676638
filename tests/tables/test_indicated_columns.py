"""Columns of numbers that say where one is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from subjects.commands import told

import prograd
from compiler.__main__ import main as compiler_main
from prograd import Program, adam, layers, ops
from runtime.__main__ import main

pytestmark = pytest.mark.usefixtures("here")

TABLE = {"age": [20.0, None, 40.0], "size": [1.0, 2.0, 3.0], "kind": ["a", "b", "a"]}


def test_a_number_stands_beside_1_where_it_was_missing():
    prograd.data.pack(TABLE, "rows.safetensors", indicate=["age"], join={"x": ["size", "age"]})
    assert load_file("rows.safetensors")["x"].tolist() == [[1, 20, 0], [2, 30, 1], [3, 40, 0]]
    new = prograd.data.encode({"age": [None, 7], "size": [5, 6]}, "rows.safetensors")["x"]
    assert new.tolist() == [[5, 30, 1], [6, 7, 0]]


def test_the_replacement_the_scale_and_the_logarithm_are_those_of_the_number():
    options = {"missing": {"age": 40}, "log": ["age"], "standardise": ["age"]}
    prograd.data.pack(TABLE, "plain.safetensors", **options)
    prograd.data.pack(TABLE, "rows.safetensors", indicate=["age"], **options)
    found = load_file("rows.safetensors")["age"]
    assert np.array_equal(found[:, 0], load_file("plain.safetensors")["age"])
    assert found[:, 1].tolist() == [0, 1, 0]
    assert prograd.data.decode(found, "age", "rows.safetensors") == pytest.approx([20, 40, 40])


def test_booleans_with_gaps_and_windows_have_it_too():
    table = {"open": [True, None, False, True], "load": [1.0, None, 3.0, 4.0]}
    prograd.data.pack(table, "rows.safetensors", indicate=["open", "load"], missing={"open": 0}, window=2)
    found = load_file("rows.safetensors")
    assert found["open"].tolist() == [[[1, 0], [0, 1]], [[0, 1], [0, 0]], [[0, 0], [1, 0]]]
    assert found["load"][0].tolist() == [[1, 0], [pytest.approx(8 / 3), 1]]


def test_a_table_with_gaps_is_packed_learned_and_predicted_by_commands(capsys: pytest.CaptureFixture[str]):
    rows = ["age,size,kind", *(f"{'' if i % 3 == 0 else i % 7},{i % 5},{'ab'[i % 3 == 0]}" for i in range(60))]
    Path("t.csv").write_text("\n".join(rows) + "\n")
    words = ["data", "pack", "t.csv", "-o", "rows.safetensors", "--indicate", "age", "--join", "x=age,size"]
    assert compiler_main(words) == 0
    capsys.readouterr()
    assert compiler_main(["data", "show", "rows.safetensors"]) == 0
    assert "two floats: the number, and 1 where it was missing" in capsys.readouterr().out
    program = Program("gaps", seed=1)
    x, kind = program.input("x", "float32", ("batch", 3)), program.input("kind", "int64", ("batch",))
    scores = layers.dense(x, "scores", 2)
    program.minimize(ops.softmax_cross_entropy(scores, kind), adam(0.1))
    program.outputs(probabilities=ops.softmax(scores))
    program.data("rows.safetensors")
    program.training(epochs=20)
    program.compile(batch=4).save("gaps.pb")
    assert main(["execute", "gaps.pb", "-q", "--save", "t.safetensors"]) == 0
    assert main(["execute", "gaps.pb", "-q", "--entry", "predict", "--load", "t.safetensors", "--data", "t.csv",
                 "--out", "o.csv"]) == 0  # fmt: skip
    kinds = [line.split(",")[1] for line in Path("o.csv").read_text().splitlines()[1:]]
    assert kinds == ["ab"[i % 3 == 0] for i in range(60)]  # what is missing tells the kinds apart
    run = prograd.load("gaps.pb")
    run.load("t.safetensors")
    assert run.predict({"age": [None, 3], "size": [1, 1]})["kind"].tolist() == ["b", "a"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"indicate": ["kind"]},
         "indicate: the column 'kind' has classes, and only columns of single numbers say where one is missing; leave "
         "it out"),
        ({"indicate": ["siz"]}, "indicate: there is no column 'siz'; did you mean 'size'?"),
        ({"indicate": 3}, 'pack: indicate=3: give it as indicate=["income"]'),
    ],
)  # fmt: skip
def test_what_has_no_gaps_of_numbers_is_refused(options: dict[str, object], said: str):
    table = {**TABLE, "age": [1, 2, 3]}
    assert told(prograd.UsageError, lambda: prograd.data.pack(table, "rows.safetensors", **options)) == said


def test_a_file_whose_columns_contradict_themselves_is_refused():
    column = '{"name":"a","kind":"number","indicated":true}'
    text = f'{{"format":1,"columns":[{column}],"joined":{{}}}}'
    prograd.data.write("bad.safetensors", {"a": np.zeros((1, 2), "float32")}, metadata={"prograd_columns": text})
    assert told(prograd.DataError, lambda: prograd.data.encode({"a": [1]}, "bad.safetensors")) == (
        "bad.safetensors: the encoding of its columns is damaged: the column 'a' has lists, or no number for a missing "
        "one, and tells where numbers are missing"
    )

"""Rows for which a program computes NaN: they have no class, and warnings count them."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow.parquet
import pytest
from subjects.commands import run_runtime

import prograd
from prograd import Program, constant, ops, sgd
from runtime.rows.encoding.scores import Unanswered

pytestmark = pytest.mark.usefixtures("here")

WARNING = "2 of 4 rows have no 'mood', because the program computes NaN for them; the first is row 1"


def reviews(kind: str, engine: str = "reference") -> prograd.Run:
    """A program whose scores divide by x, so that those of a row with 0 are NaN."""
    moods = [1.5, 2.5] * 4 if kind == "number" else ["happy", "unhappy"] * 4
    prograd.data.pack({"x": [1.0, 2.0] * 4, "mood": moods}, "rows.safetensors", force=True)
    program = Program("p", seed=1)
    x = program.input("x", "float32", ("batch",))
    mood = program.input("mood", "float32" if kind == "number" else "int64", ("batch",))
    w = program.parameter("w", (2,), constant(0.5))
    scores = (x * 0.0 / x)[:, None] + x[:, None] * w
    if kind == "number":
        program.minimize(ops.mean((scores[:, 0] - mood) ** 2), sgd(0.1))
        program.outputs(guess=scores[:, 0])
    elif kind == "second":
        program.minimize(ops.mean((scores[:, 0] - ops.cast(mood, dtype="float32")) ** 2), sgd(0.1))
        program.outputs(share=ops.sigmoid(scores[:, 0]))
    else:
        program.minimize(ops.softmax_cross_entropy(scores, mood), sgd(0.1))
        if kind == "argmax":  # of scores that are NaN it is the first class
            program.outputs(best=ops.argmax(scores, axis=1))
        program.outputs(probabilities=ops.softmax(scores))
    program.data("rows.safetensors", shuffle=False, remainder="drop")
    program.training(epochs=1)
    program.compile(batch=4).save("p.pb", force=True)
    run = prograd.load("p.pb", engine=engine)
    run.train()
    run.save("s.safetensors", force=True)
    return run


ROWS = {"x": [1.0, 0.0, 2.0, 0.0]}


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("kind", ["class", "second", "argmax"])
def test_a_row_with_nan_has_no_class(kind, engine, caplog):
    found = reviews(kind, engine).predict(ROWS, raw=True)["mood"]
    assert [value is None for value in found] == [False, True, False, True]
    assert {found[0], found[2]} <= {"happy", "unhappy"}
    assert caplog.messages == [WARNING]


def test_a_number_that_is_nan_is_counted_too(caplog):
    found = reviews("number").predict(ROWS, raw=True)["mood"]
    assert np.isnan(found).tolist() == [False, True, False, True]
    assert caplog.messages == [WARNING]


def test_no_rows_lack_nothing(caplog):
    unanswered = Unanswered()
    assert unanswered.add({"a": np.zeros(0), "b": np.zeros(0, object), "c": np.zeros((0, 3), "float32")}) == 0
    unanswered.warn()
    assert not caplog.messages


@pytest.mark.parametrize("kind", ["class", "second"])
def test_a_table_of_predictions_leaves_the_cell_empty(kind, capsys):
    reviews(kind)
    with open("new.csv", "w") as file:
        file.write("x\n1\n0\n2\n0\n")
    words = "execute", "p.pb", "--entry", "predict", "--load", "s.safetensors", "--data", "new.csv", "-q", "--force"
    for name in ("o.csv", "o.jsonl", "o.parquet"):
        code, _, err = run_runtime(capsys, *words, "--out", name)
        assert (code, err) == (0, f"runtime: warning: {WARNING}\n")
    with open("o.csv") as file:
        moods = [row["mood"] for row in csv.DictReader(file)]
    assert [mood == "" for mood in moods] == [False, True, False, True]
    with open("o.jsonl") as file:
        assert [json.loads(line)["mood"] is None for line in file] == [False, True, False, True]
    column = pyarrow.parquet.read_table("o.parquet")["mood"]
    assert (str(column.type), column.to_pylist()) == ("string", [mood or None for mood in moods])


def test_decoded_scores_with_nan_are_empty_texts(capsys):
    reviews("class")
    assert prograd.data.decode([[0.1, 0.9], [np.nan, 1.0]], "mood", "rows.safetensors").tolist() == ["unhappy", None]
    np.save("x.npy", np.array(ROWS["x"], "float32"))
    words = "execute", "p.pb", "--entry", "predict", "--load", "s.safetensors", "-q", "--feed", "x=@x.npy"
    code, out, err = run_runtime(capsys, *words, "--decode", "probabilities=mood")
    assert (code, err) == (0, f"runtime: warning: {WARNING.replace('mood', 'probabilities')}\n")
    assert out[0].endswith("'']")

"""Training on a table by --data: it has no splits, so a run that evaluates says that it does so on the same rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import prograd
from prograd import Program, adam, layers, ops
from runtime.__main__ import main

SAID = (
    "t.csv has no splits, so the run trains on all of its rows and evaluates on the same ones, which says nothing of "
    "others; pack it with --split, or give a --fold"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = [f"{a:.3f},{b:.3f},{'np'[int(a > 0)]}" for a, b in rng.normal(size=(64, 2))]
    Path("t.csv").write_text("a,b,y\n" + "\n".join(rows) + "\n")
    prograd.data.pack("t.csv", "t.safetensors", join={"x": ["a", "b"]}, split={"train": 0.5, "test": 0.5})
    program = Program("p", seed=1)
    x, y = program.input("x", "float32", ("batch", 2)), program.input("y", "int64", ("batch",))
    scores = layers.dense(x, "o", 2)
    program.minimize(ops.softmax_cross_entropy(scores, y), adam(0.02))
    program.metrics(accuracy=ops.accuracy(scores, y))
    program.data("t.safetensors", splits={"train": "train", "test": "test"}, shuffle=True, remainder="drop")
    program.training(epochs=2, evaluate="test")
    program.compile(batch=32).save("p.pb")
    return tmp_path


@pytest.mark.parametrize(
    ("more", "warned"),
    [
        ([], False),
        (["--data", "t.csv"], True),
        (["--data", "t.csv", "--fold", "1/4"], False),
        (["--data", "t.csv", "--entry", "evaluate"], False),
    ],
    ids=["packed", "table", "fold", "evaluation"],
)
def test_evaluating_on_the_rows_of_training_is_said(more: list[str], warned: bool, folder: Path, capsys):
    assert main(["execute", "p.pb", "-q", *more]) == 0
    assert (SAID in capsys.readouterr().err) == warned

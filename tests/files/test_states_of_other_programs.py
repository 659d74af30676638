"""States of a program in another one: with other metrics they load, with other classes there is a warning."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import prograd
from prograd import Program, adam, layers, metrics, ops
from runtime.__main__ import main as run_

ENGINES = ["reference", "native"]
X = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64)


def program(classes: int | None) -> Program:
    made = Program("p", seed=1)
    x, y = made.input("x", "float32", ("batch", 64)), made.input("y", "int64", ("batch",))
    scores = layers.dense(x, "o", 2)
    made.minimize(ops.softmax_cross_entropy(scores, y), adam(0.01))
    made.outputs(scores=scores)
    if classes is not None:
        made.metrics(confusion=metrics.confusion_matrix(ops.argmax(scores), y, classes=classes))
    return made


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("before", "after"), [(None, 2), (2, None), (2, 3)], ids=["added", "removed", "resized"])
def test_states_load_whatever_the_metrics_are(before: int | None, after: int | None, engine: str, tmp_path, capsys):
    first = prograd.Run(program(before).compile(batch=32), engine=engine)
    first.train(data=(X, Y), epochs=2)
    first.save(tmp_path / "s.safetensors")
    program(after).compile(batch=32).save(tmp_path / "p.pb")
    second = prograd.load(tmp_path / "p.pb", engine=engine)
    loaded = second.load(tmp_path / "s.safetensors")
    assert (sorted(loaded.loaded), loaded.left, loaded.kept) == (["o.b", "o.w"], [], [])
    np.testing.assert_array_equal(second.predict(X)["scores"], first.predict(X)["scores"])
    np.save(tmp_path / "x.npy", X)
    command = ["execute", str(tmp_path / "p.pb"), "--entry", "predict", "--load", str(tmp_path / "s.safetensors")]
    assert run_([*command, "-q", "--engine", engine, "--feed", f"x=@{tmp_path / 'x.npy'}"]) == 0


def labelled(folder: Path, name: str, labels: tuple[str, str]) -> prograd.Run:
    rows = {"a": X[:, 0], "y": np.where(Y, *labels).tolist()}
    prograd.data.pack(rows, folder / f"{name}.safetensors")
    made = Program("p", seed=1)
    x, y = made.input("a", "float32", ("batch",)), made.input("y", "int64", ("batch",))
    scores = layers.dense(x[:, None], "o", 2)
    made.minimize(ops.softmax_cross_entropy(scores, y), adam(0.01))
    made.outputs(probabilities=ops.softmax(scores))
    made.data(f"{name}.safetensors", shuffle=False, remainder="drop")
    made.training(epochs=1)
    made.compile(batch=32).save(folder / f"{name}.pb")
    return prograd.load(folder / f"{name}.pb")


def test_states_that_were_trained_with_other_classes_load_with_a_warning(tmp_path: Path, caplog, capsys):
    first = labelled(tmp_path, "one", ("cat", "dog"))
    first.train(progress=False)
    states = tmp_path / "s.safetensors"
    first.save(states)
    first.load(states)
    assert [record for record in caplog.records if "classes" in record.message] == []
    second = labelled(tmp_path, "two", ("dog", "cow"))
    second.load(states)
    said = (
        f"{states} was trained with other classes of 'y' than the program has (cow, dog), so its numbers stand for "
        "other values; pack rows with the classes of before by --like, or like="
    )
    assert [record.message for record in caplog.records if "classes" in record.message] == [said]
    command = ["execute", str(tmp_path / "two.pb"), "--entry", "evaluate", "--load", str(states), "-q"]
    assert run_(command) == 0
    assert said in capsys.readouterr().err

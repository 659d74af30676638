"""Forgotten options of runs: --out of a prediction, --every of checkpoints, and a mistyped folder of --resume."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

import prograd
from prograd import Program, layers, ops, sgd
from runtime.__main__ import main
from runtime.runs.checkpoints import cost


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    area = np.linspace(40, 200, 64)
    kinds = [("flat", "house")[int(a > 100)] for a in area]
    prograd.data.pack({"area": area, "price": 2000 * area, "kind": kinds}, "rows.safetensors", standardise=["price"])
    program = Program("prices", seed=1)
    area, price = program.input("area", "float32", ("batch",)), program.input("price", "float32", ("batch",))
    kind = program.input("kind", "int64", ("batch",))
    found, scores = layers.dense(area[:, None] / 100.0, "price", 1)[:, 0], layers.dense(area[:, None], "kind", 2)
    program.minimize(ops.squared_error(found, price) + ops.softmax_cross_entropy(scores, kind), sgd(1e-4))
    program.outputs(price=found, scores=scores)
    program.data("rows.safetensors", remainder="drop")
    program.training(epochs=2)
    program.compile(batch=32).save("p.pb")
    prograd.load("p.pb").save("t.safetensors")


PREDICT = ["execute", "p.pb", "--entry", "predict", "--load", "t.safetensors"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "nothing of the entry 'predict' is printed or written; ask for --out predictions.csv, or for "
         "--decode price"),
        (["--fetch", "price"], "'price' is printed as the program computes it; --decode price gives values of the "
         "column"),
        (["--decode", "price"], ""),
        (["--fetch", "scores"], ""),
        (["--fetch", "price=@p.npy"], ""),
        (["--out", "p.csv"], ""),
        (["-q"], ""),
        (["--entry", "evaluate"], ""),
    ],
)  # fmt: skip
def test_predictions_that_nobody_sees_are_noted(options: list[str], said: str, capsys: pytest.CaptureFixture[str]):
    assert main([*PREDICT, *options]) == 0
    assert capsys.readouterr().err == (f"runtime: {said}\n" if said else "")


def test_fetches_are_proposed_where_the_program_knows_no_columns(capsys: pytest.CaptureFixture[str]):
    program = Program("plain", seed=1)
    program.outputs(y=program.input("x", "float32", ("batch", 2)) * 2.0)
    program.compile(batch=1).save("plain.pb")
    np.save("x.npy", np.ones((1, 2), np.float32))
    assert main(["execute", "plain.pb", "--entry", "predict", "--feed", "x=@x.npy"]) == 0
    assert capsys.readouterr().err == (
        "runtime: nothing of the entry 'predict' is printed or written; ask for --fetch y, or for --fetch y=@y.npy\n"
    )


def test_checkpoints_that_take_most_of_a_run_are_told_with_fewer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def warned(**options: object) -> list[str]:
        caplog.clear()
        with caplog.at_level(logging.WARNING, "prograd"):
            prograd.load("p.pb").train(progress=False, epochs=10, checkpoint="c", force=True, **options)
        return [message for message in caplog.messages if "checkpoints took" in message]

    assert warned() == []  # too short to matter
    monkeypatch.setattr(cost, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(cost, "MAX_SHARE", 0.0)
    [told] = warned()
    assert told.startswith("10 checkpoints took ")
    every = int(told.partition("every=")[2].partition(" ")[0])
    assert str(every).strip("0") in "123456789"  # one digit, and zeros
    assert told.endswith(f"seconds; every={every} writes fewer")
    monkeypatch.setattr(cost, "MAX_SHARE", 1.0)
    assert warned() == []


def test_a_mistyped_folder_of_checkpoints_is_answered_with_the_closest_one(capsys: pytest.CaptureFixture[str]):
    assert main(["execute", "p.pb", "-q", "--checkpoint", "run1"]) == 0
    Path("run2").mkdir()  # has no checkpoints
    capsys.readouterr()
    assert main(["execute", "p.pb", "-q", "--checkpoint", "rum1", "--resume"]) == 0
    assert capsys.readouterr().err == (
        "runtime: warning: rum1: there is no checkpoint yet; the run begins; did you mean 'run1'?\n"
    )
    assert main(["execute", "p.pb", "-q", "--checkpoint", "other", "--resume"]) == 0
    assert capsys.readouterr().err == "runtime: warning: other: there is no checkpoint yet; the run begins\n"
    run = prograd.load("p.pb")
    for name, said in (
        ("rnu1", "rnu1: no such file; did you mean 'run1'?"),
        ("run2", "run2: there is no checkpoint in this folder; did you mean 'run1'?"),
    ):
        with pytest.raises(prograd.DataError) as caught:
            run.resume(name)
        assert str(caught.value) == said

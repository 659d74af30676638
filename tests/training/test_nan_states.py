"""States with NaN or Inf: no run succeeds with them, no file has them, and the best states are restored."""

from __future__ import annotations

import logging
import math
import os
from pathlib import Path

import numpy as np
import pytest
from fuzz.nonfinite.judge import tried
from safetensors.numpy import load_file
from subjects.commands import fields, run_runtime, told

import prograd
from prograd import Program, constant, layers, ops, schedules, sgd
from prograd.callbacks import EarlyStopping
from runtime.dtypes import BFLOAT16, extreme
from runtime.errors import NonFinite

ENGINES = ["reference", "native"]
REMEDY = "a lower learning rate or clipping may help, and {} names the op that makes the first one"


def saved(folder: Path, rows: int) -> Path:
    """A program whose gradient is NaN at rows of zeros, the second eight of each, where its loss is finite."""
    x = np.ones((24, 2), "float32")
    x[8:16] = 0
    prograd.data.write(folder / "rows.safetensors", {"x": x}, splits={"train": range(rows)}, force=True)
    program = Program("roots", seed=1)
    w = program.parameter("w", (2,), constant(1.0))
    x = program.input("x", "float32", ("batch", 2))
    program.minimize(ops.mean(ops.sqrt(ops.square(x * w))), sgd(0.1))
    program.data("rows.safetensors", splits={"train": "train"}, shuffle=False, remainder="drop")
    program.training(epochs=1)
    program.compile(batch=8).save(folder / "p.pb", force=True)
    return folder / "p.pb"


def diverging(folder: Path, **options: object) -> prograd.Run:
    """A run of 4 steps an epoch whose rate leaps at step 10."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 4)).astype("float32")
    arrays = {"x": x, "y": (x[:, 0] > 0).astype("int64")}
    prograd.data.write(
        folder / "rows.safetensors", arrays, splits={"train": range(32), "test": range(32, 64)}, force=True
    )
    program = Program("leaps", seed=1)
    x, y = program.input("x", "float32", ("batch", 4)), program.input("y", "int64", ("batch",))
    scores = layers.dense(ops.relu(layers.dense(x, "h", 16)), "o", 2)
    rate = schedules.piecewise(milestones=[10], rates=[0.1, 1e38])
    program.minimize(ops.softmax_cross_entropy(scores, y), sgd(rate))
    program.data("rows.safetensors", splits={"train": "train", "test": "test"}, shuffle=False, remainder="drop")
    program.training(epochs=5, evaluate="test", **options)
    program.compile(batch=8).save(folder / "p.pb", force=True)
    return prograd.load(folder / "p.pb")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_gradient_with_nan_in_the_last_step_is_no_success(engine, tmp_path, monkeypatch, capsys):
    saved(tmp_path, 16)
    monkeypatch.chdir(tmp_path)
    code, out, err = run_runtime(capsys, "execute", "p.pb", "--save", "s.safetensors", "-q", "--engine", engine)
    assert (code, out) == (5, [])
    assert err == f"runtime: after step 2: the state 'w' has NaN; {REMEDY.format('--check-nan')}\n"
    assert not os.path.exists("s.safetensors")


@pytest.mark.parametrize("engine", ENGINES)
def test_no_checkpoint_has_nan_and_the_last_good_one_resumes(engine, tmp_path, monkeypatch, capsys):
    saved(tmp_path, 24)
    monkeypatch.chdir(tmp_path)
    words = "execute", "p.pb", "--checkpoint", "c", "--every", "1", "-q", "--engine", engine
    code, out, err = run_runtime(capsys, *words)
    assert (code, out) == (5, [])
    assert err == (
        f"runtime: after step 2: the state 'w' has NaN; {REMEDY.format('--check-nan')}; "
        "--resume goes on from the last checkpoint in c\n"
    )
    assert os.listdir("c") == ["step-0000000001.safetensors"]
    assert np.isfinite(load_file("c/step-0000000001.safetensors")["w"]).all()
    assert run_runtime(capsys, *words, "--resume")[0] == 5  # it is the same step again, and no damaged checkpoint
    assert os.listdir("c") == ["step-0000000001.safetensors"]


@pytest.mark.parametrize("engine", ENGINES)
def test_states_with_nan_are_not_saved(engine, tmp_path):
    run = prograd.load(saved(tmp_path, 16), engine=engine)
    with pytest.raises(NonFinite):
        run.train()
    assert told(NonFinite, lambda: run.save(tmp_path / "s.safetensors")) == (
        f"{tmp_path}/s.safetensors: the state 'w' has NaN, so nothing is written; "
        "go on from states that were saved before"
    )
    assert not (tmp_path / "s.safetensors").exists()


def test_single_steps_may_make_nan_and_save_refuses_it(tmp_path):
    run = prograd.load(saved(tmp_path, 16))
    run.step({"x": np.zeros((8, 2), "float32")})
    assert np.isnan(run.state["w"]).all()
    with pytest.raises(NonFinite):
        run.save(tmp_path / "s.safetensors")


def test_a_program_that_trains_nothing_saves_whatever_it_has(tmp_path):
    program = Program("constant")
    w = program.parameter("w", (2,), constant(math.nan))
    program.outputs(z=program.input("x", "float32", ("batch", 2)) * w)
    prograd.Run(program.compile(batch=1)).save(tmp_path / "s.safetensors")
    assert (tmp_path / "s.safetensors").exists()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("kind", ["parameter", "buffer"])
def test_states_of_every_kind_and_dtype_are_looked_at(kind, dtype, tmp_path):
    program = Program("looked", seed=1)
    x = program.input("x", "float32", ("batch",))
    w = program.parameter("w", (), constant(0.0))
    program.minimize(ops.mean((x - w) ** 2), sgd(0.1))
    other = getattr(program, kind)("other", (70_000,), constant(0.0), dtype=dtype)
    program.update(other, other)
    run = prograd.Run(program.compile(batch=4))
    run.train(data={"x": np.ones(4, "float32")})
    found = run.states.arrays["other"]
    found.reshape(-1)[-1] = (0x7FC0,) if dtype == "bfloat16" else math.nan
    with pytest.raises(NonFinite, match="the state 'other' has NaN"):
        run.save(tmp_path / "s.safetensors")


def test_extremes_of_arrays():
    for dtype in ("float16", "float32", "float64"):
        for bad, number in ((math.nan, math.nan), (math.inf, math.inf), (-math.inf, math.inf), (3.0, 0.0)):
            array = np.zeros((70_000,), dtype)
            array[-1] = bad
            np.testing.assert_equal(extreme(array), number)
    for bits, number in ((0x7FC0, math.nan), (0xFF81, math.nan), (0xFF80, math.inf), (0x7F7F, 0.0)):
        array = np.zeros((70_000,), BFLOAT16)
        array["bfloat16"][-1] = bits
        np.testing.assert_equal(extreme(array), number)
    assert extreme(np.zeros((0, 3), "float32")) == 0.0


def test_infinity_that_a_parameter_has_from_its_start_is_no_error():
    program = Program("masked", seed=1)
    x, y = program.input("x", "float32", ("batch", 2)), program.input("y", "int64", ("batch",))
    mask = program.parameter("mask", (3,), constant(0.0))
    program.minimize(ops.softmax_cross_entropy(layers.dense(x, "o", 3) + mask, y), sgd(0.1))
    run = prograd.Run(program.compile(batch=4))
    run.state["mask"] = np.array([0, 0, -math.inf], "float32")
    rows = np.ones((4, 2), "float32"), np.zeros(4, "int64")
    assert math.isfinite(run.train(data=rows).metrics["loss"])
    assert run.state["mask"][2] == -math.inf


@pytest.mark.parametrize("engine", ENGINES)
def test_the_best_states_are_restored_when_the_loss_becomes_nan(engine, tmp_path, monkeypatch, capsys):
    diverging(tmp_path, keep_best="loss")
    monkeypatch.chdir(tmp_path)
    words = "execute", "p.pb", "--save", "s.safetensors", "--checkpoint", "c", "-q", "--engine", engine
    code, out, err = run_runtime(capsys, *words)
    assert (code, out) == (5, [])
    best = run_runtime(capsys, "execute", "p.pb", "--entry", "evaluate", "--load", "s.safetensors", "--engine", engine)
    loss = float(fields(best[1][-1])["loss"])
    assert err.startswith("runtime: step 12: loss is ")
    assert err.endswith(
        f"{REMEDY.format('--check-nan')}; the run ends with the states of epoch 2, step 8, which have the best loss: "
        f"{loss:.4g}, and s.safetensors has them; --resume goes on from the last checkpoint in c\n"
    )


@pytest.mark.parametrize("check_nan", [False, True])
def test_early_stopping_restores_the_best_states_when_the_run_diverges(check_nan, tmp_path):
    run = diverging(tmp_path)
    run = prograd.load(tmp_path / "p.pb", check_nan=check_nan)
    with pytest.raises(NonFinite) as caught:
        run.train(callbacks=[EarlyStopping(patience=5)])
    assert caught.value.is_restored
    assert (caught.value.step is not None) == check_nan
    assert run.position.steps == 8
    assert run.evaluate("test")["loss"] == run.position.best_metric == run.result.metrics["evaluate.loss"]
    run.save(tmp_path / "s.safetensors")


def test_without_best_states_the_error_says_nothing_of_them(tmp_path):
    run = diverging(tmp_path)
    with pytest.raises(NonFinite) as caught:
        run.train(callbacks=[EarlyStopping(restore_best=False)])
    assert not caught.value.is_restored
    assert str(caught.value).endswith(REMEDY.format("check_nan=True"))


def test_states_with_nan_are_never_the_best_ones(tmp_path):
    run = prograd.load(saved(tmp_path, 16))
    with pytest.raises(NonFinite) as caught:
        run.train(callbacks=[EarlyStopping(monitor="loss")])  # the loss of the training, which is finite
    assert not caught.value.is_restored
    assert run.position.best_metric is None


def test_an_evaluation_whose_loss_is_nan_is_never_the_best_one(tmp_path):
    """An accuracy counts scores that are NaN as wrong, so it is finite and may be compared with others."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((32, 4)).astype("float32")
    rows = {"x": x, "y": (np.arange(32) % 2).astype("int64")}
    program = Program("p", seed=1)
    a, y = program.input("x", "float32", ("batch", 4)), program.input("y", "int64", ("batch",))
    scores = layers.dense(a, "o", 2)
    program.minimize(ops.softmax_cross_entropy(scores, y), sgd(0.01))
    program.metrics(accuracy=ops.accuracy(scores, y))
    run = prograd.Run(program.compile(batch=8))
    nothing = {"x": np.full((8, 4), np.nan, "float32"), "y": np.zeros(8, "int64")}
    result = run.train(data=rows, validation_data=nothing, epochs=2, callbacks=[EarlyStopping(monitor="accuracy")])
    assert result.history["evaluate.accuracy"] == [0.0, 0.0]
    assert result.history["best"] == [False, False]
    assert result.best_epoch is None


def test_an_interrupted_run_writes_no_checkpoint_with_nan(tmp_path, caplog):
    run = prograd.load(saved(tmp_path, 24))
    calls = []

    def between():
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.train(checkpoint=tmp_path / "c", between=between)
    assert os.listdir(tmp_path / "c") == []
    assert caplog.messages[-1].startswith("no checkpoint is written: after step 2: the state 'w' has NaN; ")


def test_an_evaluation_that_is_nan_warns_once(tmp_path, caplog):
    run = diverging(tmp_path)
    x = np.full((8, 4), np.nan, "float32")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert math.isnan(run.evaluate((x, np.zeros(8, "int64")))["loss"])
    assert (
        caplog.messages.count(
            "entry 'evaluate': loss is NaN; the rows may lack a number, or the weights may be too large; "
            "check_nan=True names the op that makes the first one"
        )
        == 1
    )


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(8))
def test_random_trainings_with_nan_or_inf_at_a_random_step_save_neither(seed: int):
    counts, fault = tried(seed)
    assert fault == ""
    assert sum(counts.values()) == (2 if seed % 5 else 3)

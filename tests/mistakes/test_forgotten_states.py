"""A forgotten --load: every command that uses initial values says so, in the words of the command that was called."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import prograd
from compiler.__main__ import main as compiler
from prograd import Program, layers, ops, sgd
from prograd.__main__ import main as both
from runtime.__main__ import main as runtime

COMMANDS = {"runtime": runtime, "compiler": compiler, "prograd": both}

PREDICTS = "the entry 'predict' computes with initial values"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_file({"x": np.ones((64, 32), np.float32), "y": np.arange(64) % 32}, "rows.safetensors")
    program = Program("net", seed=1)
    x, y = program.input("x", "float32", ("batch", 32)), program.input("y", "int64", ("batch",))
    scores = layers.dense(x, "head", 32)
    program.minimize(ops.softmax_cross_entropy(scores, y), sgd(0.1))
    program.outputs(scores=scores)
    program.data("rows.safetensors", shuffle=False)
    program.training(epochs=1)
    program.compile(batch=32).save("net.pb")
    prograd.load("net.pb").save("s.safetensors")


@pytest.mark.parametrize("command", ["runtime execute", "prograd execute"])
@pytest.mark.parametrize("more", [[], ["--out", "p.csv"], ["--part", "1/2"]], ids=["arrays", "table", "part"])
def test_predictions_with_initial_values_warn(command: str, more: list[str], capsys: pytest.CaptureFixture[str]):
    name, verb = command.split()
    words = [verb, "net.pb", "--entry", "predict", "-q", *more]
    assert COMMANDS[name](words) == 0
    expected = f"{name}: warning: nothing was loaded: {PREDICTS}; --load takes those of a run\n"
    assert capsys.readouterr().err == expected
    assert COMMANDS[name]([*words, "--load", "s.safetensors", "--force"]) == 0
    assert capsys.readouterr().err == ""


FILES = [
    (["export", "net.pb", "-o", "net.onnx"], "the model has initial values"),
    (["quantize", "net.pb", "-o", "small.pb"], "the codes stand for initial values"),
    (["quantize", "net.pb", "--split", "train", "-o", "small.pb"], "the codes stand for initial values"),
    (
        ["build", "net.pb", "--target", "cortex-m4", "--entry", "predict", "-o", "out"],
        "the library computes with initial values",
    ),
]


@pytest.mark.parametrize(("words", "what"), FILES, ids=["export", "quantize", "int8", "build"])
def test_files_of_initial_values_warn(words: list[str], what: str, capsys: pytest.CaptureFixture[str]):
    assert compiler([*words, "-q"]) == 0
    expected = f"compiler: warning: nothing was loaded: {what}; --load takes those of a run\n"
    assert capsys.readouterr().err == expected
    assert compiler([*words, "-q", "--load", "s.safetensors", "--force"]) == 0
    assert capsys.readouterr().err == ""


def test_a_library_that_trains_and_a_view_need_no_trained_states(capsys: pytest.CaptureFixture[str]):
    assert compiler(["build", "net.pb", "--target", "cortex-m4", "-o", "out", "-q"]) == 0
    assert compiler(["export", "net.pb", "--view", "-o", "view.onnx", "-q"]) == 0
    assert capsys.readouterr().err == ""


def test_adapters_that_nothing_trained_are_merged_with_a_warning(capsys: pytest.CaptureFixture[str]):
    program = Program("tune", seed=1)
    x, y = program.input("x", "float32", ("batch", 32)), program.input("y", "int64", ("batch",))
    scores = layers.dense(x, "head", 32)
    program.lora("head", r=2)
    program.minimize(ops.softmax_cross_entropy(scores, y), sgd(0.1))
    program.compile(batch=32).save("tune.pb")
    assert compiler(["merge", "tune.pb", "-o", "merged.safetensors"]) == 0
    assert capsys.readouterr().err == (
        "compiler: warning: nothing was loaded: the adapters have initial values; --load takes those of a run\n"
    )


def test_exports_of_python_warn_of_a_run_that_was_never_trained(caplog: pytest.LogCaptureFixture):
    pytest.importorskip("onnx")
    run = prograd.load("net.pb")
    prograd.to_onnx(run)
    prograd.to_onnx(run)
    assert caplog.messages == ["nothing was trained, loaded or set: the model has initial values"]  # once for a run
    caplog.clear()
    trained = prograd.load("net.pb")
    trained.train(progress=False)
    prograd.to_onnx(trained)
    prograd.to_onnx("net.pb", states="s.safetensors")
    assert caplog.messages == []


def test_warnings_of_the_log_have_the_name_of_the_command(capsys: pytest.CaptureFixture[str]):
    Path("t.csv").write_text("a,b\n1,2\n1,3\n")
    for name in ("compiler", "prograd"):
        assert COMMANDS[name](["data", "pack", "t.csv", "-o", "t.safetensors", "--standardise", "a", "--force"]) == 0
        assert capsys.readouterr().err == (
            f"{name}: warning: 'a' is constant in the training rows, so it is centred and not scaled; "
            "--drop a leaves it out\n"
        )

"""Arguments in the wrong position or of the wrong kind are answered by one sentence, not by a TypeError of Python."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from subjects.commands import run_runtime, told
from subjects.small_programs import linear, save

import prograd
from compiler import CompileError, OpError, Program, ops


@pytest.mark.parametrize("shape", [("n", 3), ["n", 3]])
def test_a_shape_in_place_of_a_dtype_says_the_order(shape: object):
    program = Program("p")
    for act in (lambda: program.input("x", shape, "float32"), lambda: program.buffer("x", shape, dtype=shape)):
        with pytest.raises(OpError) as caught:
            act()
        assert str(caught.value).endswith(
            " 'x': ('n', 3) stands where the dtype is; the order is name, dtype, shape: 'float32', ('n', 3)"
        )
        assert "test_misplaced_arguments.py:" in str(caught.value)


def test_outputs_and_metrics_without_names_show_how_to_name_them():
    program = Program("p")
    x = program.input("x", "float32", ("n", 3))
    y = ops.sum(x, axis=(1,))
    wanted = {
        "metrics: a str is given without a name; write metrics(accuracy=accuracy)": lambda: program.metrics("x"),
        "outputs: a Value is given without a name; write outputs(logits=logits)": lambda: program.outputs(y),
        "outputs: a dict is given without a name; write outputs(logits=logits)": lambda: program.outputs({"y": y}),
    }
    for sentence, act in wanted.items():
        with pytest.raises(OpError) as caught:
            act()
        where, _, said = str(caught.value).partition(": ")
        assert "test_misplaced_arguments.py:" in where
        assert said == sentence
    program.outputs(y=y)
    assert list(program.fetched("predict")) == ["y"]


UNNAMED = "the rows are of type list; name the feed of each array, as in {'x': x, 'label': label}"
BY_NAME = "train: options are given by name, as in train(epochs=3) or train(data={'x': x, 'y': y})"
RUNS: list[tuple[str, Callable[[prograd.Run], object]]] = [
    (BY_NAME, lambda run: run.train(np.zeros((4, 3), "f"))),
    (BY_NAME, lambda run: run.train(10)),
    (
        "checkpoint=3: it is the path of a folder; every= says how many steps there are between checkpoints",
        lambda run: run.train(checkpoint=3),
    ),
    ("keep='3': write a whole number, as in keep=10", lambda run: run.train(checkpoint="c", keep="3")),
    ("set: a setting is given by name, as in set(rate=0.01)", lambda run: run.set("rate", 3)),
    (UNNAMED, lambda run: run.train(data=[1.0, 2.0, 3.0], steps=2)),
    (UNNAMED, lambda run: run.train(data=[[1.0, 2.0, 3.0]])),
    (UNNAMED, lambda run: run.step([1.0, 2.0, 3.0])),
    (UNNAMED, lambda run: run.evaluate([1.0, 2.0, 3.0])),
    ("load: the path of a file is text or a Path, not int", lambda run: run.load(3)),
]


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize(("sentence", "act"), RUNS)
def test_a_run_answers_misplaced_arguments(
    sentence: str, act: Callable[[prograd.Run], object], engine: str, tmp_path: Path, monkeypatch
):
    run = prograd.load(save(linear(), tmp_path), engine=engine)
    monkeypatch.chdir(tmp_path)
    before = run.state_sha256, sorted(tmp_path.iterdir())
    assert told(prograd.UsageError, lambda: list(act(run))) == sentence
    assert before == (run.state_sha256, sorted(tmp_path.iterdir()))
    assert run.train(epochs=1).steps > 1


def test_programs_and_states_that_are_taken_for_each_other_say_so(tmp_path: Path, monkeypatch, capsys):
    run = prograd.load(save(linear(), tmp_path), engine="reference")
    monkeypatch.chdir(tmp_path)
    said = "p.pb: this is a program by its name; states are safetensors files, as run.save writes them"
    for act in (run.load, run.resume):
        with pytest.raises(prograd.DataError) as caught:
            act("p.pb")
        assert str(caught.value) == said
    code, _, err = run_runtime(capsys, "execute", "p.pb", "-q", "--load", "p.pb")
    assert (code, err) == (4, f"runtime: {said.replace('run.save writes', '--save writes')}\n")
    said = "rows.safetensors: this is a safetensors file and no program; run.load takes states"
    for act in (prograd.load, Program.load):
        with pytest.raises(prograd.ProgramError) as refused:
            act("rows.safetensors")
        assert str(refused.value) == said
    code, _, err = run_runtime(capsys, "execute", "rows.safetensors", "-q")
    assert (code, err) == (3, f"runtime: {said.replace('run.load', '--load after the program')}\n")


def test_a_number_is_no_path_of_a_program(tmp_path: Path):
    compiled = Program.load(save(linear(), tmp_path)).compile()
    assert told(CompileError, lambda: compiled.save(3)) == "save: the path of a file is text or a Path, not int"


UNKNOWN: list[tuple[Callable[[Any], object], str]] = [
    (
        lambda program: program.training(patience=3),
        "training: there is no argument 'patience'; here it is called stop_after",
    ),
    (
        lambda program: program.training(epochs=3, batch_size=32),
        "training: there is no argument 'batch_size'; the batch is bound by compile(batch=32)",
    ),
    (lambda program: program.training(epoch=3), "training: there is no argument 'epoch'; did you mean 'epochs'?"),
    (lambda program: program.data(path="x.npz"), "data: there is no argument 'path'; here it is called file"),
]


@pytest.mark.parametrize(("call", "sentence"), UNKNOWN)
def test_unknown_arguments_of_a_program_lead_to_known_ones(call: Callable[[Any], object], sentence: str):
    with pytest.raises(OpError) as caught:
        call(Program("p"))
    where, _, said = str(caught.value).partition(": ")
    assert "test_misplaced_arguments.py:" in where
    assert said.startswith(sentence)


def test_a_program_without_outputs_says_what_a_prediction_needs(tmp_path: Path):
    program = Program("p")
    x = program.input("x", "float32", ("n", 3))
    program.outputs(y=x * 2.0)
    program.compile(n=2).save(tmp_path / "p.pb")
    assert prograd.load(tmp_path / "p.pb").predict({"x": np.ones((2, 3), "f")})["y"].shape == (2, 3)
    program = Program("p")
    x = program.input("x", "float32", ("n", 3))
    program.metrics(mean=ops.mean(x))
    run = prograd.Run(program.compile(n=2))
    assert told(prograd.UsageError, lambda: run.predict({"x": np.ones((2, 3), "f")})) == (
        "there is no entry 'predict'; the entries are evaluate; program.outputs(…) declares the results of a prediction"
    )

"""Tests of whether lower or higher values of a metric are better, as the metric, its name or an argument says."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from subjects.commands import told

import prograd
from prograd import Program, ops, sgd
from prograd import metrics as m
from prograd_proto import program_pb2 as pb
from prograd_proto.better import best_by_name
from registry import Value

MIN, MAX = pb.DIRECTION_MIN, pb.DIRECTION_MAX


def classifier() -> tuple[Program, Value, Value]:
    program = Program(seed=3)
    x = program.input("x", "float32", ("batch", 4))
    label = program.input("label", "int64", ("batch",))
    logits = x @ program.parameter("w", (4, 3))
    program.minimize(ops.softmax_cross_entropy(logits, label), sgd(0.1))
    return program, logits, label


def direction(program: Program, **run: object) -> int:
    program.training(epochs=1, evaluate="test", **run)  # type: ignore[arg-type]
    return program.compile(batch=4).desc.run.keep_best.direction


def test_lower_losses_are_better():
    program, _, _ = classifier()
    assert direction(program, keep_best="loss") == MIN


def test_lower_losses_are_better_whatever_their_name():
    program, logits, label = classifier()
    program.minimize(ops.softmax_cross_entropy(logits, label), sgd(0.1), name="accuracy")
    assert direction(program, keep_best="accuracy") == MIN


def test_what_the_run_says_comes_first():
    program, _, _ = classifier()
    assert direction(program, keep_best="loss", best="max") == MAX


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda y, t: m.accuracy(y, t), MAX),
        (lambda y, t: m.top_k_accuracy(y, t, k=2), MAX),
        (lambda y, t: m.precision(y, t), MAX),
        (lambda y, t: m.recall(y, t), MAX),
        (lambda y, t: m.f1(y, t), MAX),
        (lambda y, t: m.auc(y[:, 0], t, bins=5), MAX),
        (lambda y, t: m.auc(y[:, 0], t, rows=50), MAX),
        (lambda y, t: m.r2(y[:, 0], y[:, 1]), MAX),
        (lambda y, t: m.perplexity(y, t), MIN),
        (lambda y, t: m.perplexity(y, t, ignored=0), MIN),
        (lambda y, t: m.mean_absolute_error(y[:, 0], y[:, 1]), MIN),
        (lambda y, t: m.mean_squared_error(y[:, 0], y[:, 1]), MIN),
        (lambda y, t: m.root_mean_squared_error(y[:, 0], y[:, 1]), MIN),
    ],
)
@pytest.mark.parametrize("by", ["metrics", "entry"])
def test_a_metric_says_which_values_are_better_under_any_name(make, wanted: int, by: str):
    program, logits, label = classifier()
    metric: m.Metric = make(logits, label)
    program.metrics(q=metric) if by == "metrics" else program.entry("evaluate", q=metric)
    assert direction(program, keep_best="q") == wanted


def test_the_name_decides_where_the_metric_does_not_say_it():
    program, logits, label = classifier()
    program.metrics(accuracy=ops.accuracy(logits, label), squared_error=ops.mean(ops.square(logits)))
    assert direction(program, keep_best="accuracy") == MAX
    assert direction(program, keep_best="squared_error") == MIN


def test_a_metric_of_which_nothing_is_known_is_asked_for():
    program, logits, _ = classifier()
    program.metrics(spread=m.mean(ops.square(logits)))
    program.training(epochs=1, evaluate="test", keep_best="spread")
    assert told(prograd.OpError, lambda: program.compile(batch=4)).partition(": ")[2] == (
        "training: keep_best='spread' does not say whether lower or higher values are better; "
        "give best='min' or best='max'"
    )
    assert direction(program, keep_best="spread", best="min") == MIN


def test_an_opened_file_keeps_its_direction(tmp_path: Path):
    program, logits, _ = classifier()
    program.metrics(spread=m.mean(ops.square(logits)))
    program.training(epochs=1, evaluate="test", keep_best="spread", best="min")
    program.compile(batch=4).save(tmp_path / "p.pb")
    assert Program.load(tmp_path / "p.pb").compile(batch=4).desc.run.keep_best.direction == MIN


@pytest.mark.parametrize(
    ("name", "best"),
    [
        ("loss", "min"),
        ("loss2", "min"),
        ("test.loss", "min"),
        ("f1_loss", "min"),
        ("Error-rate", "min"),
        ("val/accuracy", "max"),
        ("r2", "max"),
        ("top5_accuracy", "max"),
        ("glossy", None),
        ("x", None),
        ("", None),
    ],
)
def test_names_of_losses_and_accuracies(name: str, best: str | None):
    assert best_by_name(name) == best


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_the_states_of_the_lowest_loss_are_kept_and_improving_runs_go_on(engine: str, tmp_path: Path):
    draw = np.random.default_rng(1)
    x = draw.standard_normal((64, 64), dtype=np.float32)
    w = draw.standard_normal((64,), dtype=np.float32)
    save_file({"x": x, "y": x @ w, "test": np.arange(32), "train": np.arange(32, 64)}, tmp_path / "d.safetensors")
    program = Program(seed=1)
    seen = program.input("x", "float32", ("batch", 64))
    y = ops.sum(seen * program.parameter("w", (64,), prograd.zeros()), axis=(1,))
    program.minimize(ops.squared_error(y, program.input("y", "float32", ("batch",))), sgd(0.01))
    program.data("d.safetensors", splits={"train": "train", "test": "train"}, shuffle=False, remainder="drop")
    program.training(epochs=9, evaluate="test", keep_best="loss", stop_after=2)
    program.compile(batch=32).save(tmp_path / "p.pb")
    run = prograd.load(tmp_path / "p.pb", engine=engine)
    losses = [e.metrics["loss"] for e in run.events() if isinstance(e, prograd.EvaluationEnd)]
    assert len(losses) == 9
    assert losses == sorted(losses, reverse=True)
    assert run.position.evaluation["loss"] == min(losses)

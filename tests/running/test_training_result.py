"""Run.train: it does what the events say, and its result is their table."""

import io
import os
import signal
import sys
import threading
import time

import numpy as np
import pandas
import polars
import pytest
from subjects.small_programs import BATCH, TRAIN, arrays, linear, rich, save

import runtime
from runtime.runs.shown.training_result import EPOCHS

PER_EPOCH = TRAIN // BATCH


def by_events(path, **options):
    run = runtime.load(path)
    return run, list(run.events(**options))


def test_training_changes_the_states_as_the_events_do(tmp_path):
    path = save(rich(), tmp_path)
    other, _ = by_events(path)
    run = runtime.load(path)
    result = run.train()
    assert run.states.sha256() == other.states.sha256()
    assert result.steps == 3 * PER_EPOCH
    assert run.result is result
    assert result.wall > 0


def test_the_history_has_the_metrics_of_the_events(tmp_path):
    path = save(linear(), tmp_path, epochs=4, every=2)
    _, events = by_events(path)
    history = runtime.load(path).train().history
    epochs = [event for event in events if isinstance(event, runtime.EpochEnd)]
    evaluations = [event for event in events if isinstance(event, runtime.EvaluationEnd)]
    assert list(history) == ["epoch", "step", "loss", "rate", "evaluate.loss", "best"]
    assert history["epoch"] == [1, 2, 3, 4]
    assert history["step"] == [PER_EPOCH * epoch for epoch in history["epoch"]]
    assert history["loss"] == [event.metrics["loss"] for event in epochs]
    assert history["evaluate.loss"] == [None, evaluations[0].metrics["loss"], None, evaluations[1].metrics["loss"]]
    assert history["best"] == [None, evaluations[0].is_best, None, evaluations[1].is_best]
    assert history.rows[2] == {name: values[2] for name, values in history.items()}


def test_frames_take_the_history_as_it_is(tmp_path):
    history = runtime.load(save(linear(), tmp_path)).train().history
    for frame in (pandas.DataFrame(history), polars.DataFrame(history)):
        assert list(frame.columns) == list(history)
        assert frame["loss"].to_list() == history["loss"]


def test_the_final_metrics_are_those_of_the_best_states(tmp_path):
    run = runtime.load(save(linear(), tmp_path, best="max"))
    result = run.train()
    assert result.history["best"] == [True, False, False]
    assert result.best_epoch == 1
    assert result.steps == 3 * PER_EPOCH
    assert result.metrics == {name: result.history[name][0] for name in ("loss", "rate", "evaluate.loss")}
    assert result.metrics["evaluate.loss"] == run.evaluate("test")["loss"]


def test_without_evaluation_there_is_no_best_epoch(tmp_path):
    result = runtime.load(save(linear(), tmp_path, evaluate=None, keep_best=None)).train(steps=10)
    assert result.best_epoch is None
    assert result.history["step"] == [7, 10]
    assert result.metrics == {"loss": result.history["loss"][-1], "rate": result.history["rate"][-1]}


def test_a_run_at_its_end_trains_no_step(tmp_path):
    run = runtime.load(save(linear(), tmp_path))
    first = run.train()
    again = run.train()
    assert again.steps == 0
    assert again.history == {"epoch": [], "step": []}
    assert again.best_epoch == first.best_epoch
    assert again.metrics == {"evaluate.loss": first.metrics["evaluate.loss"]}
    assert repr(again).endswith("\nno epoch")


def test_a_metric_with_the_name_of_a_column_has_another_column(tmp_path):
    program = linear()
    program.metrics(step=program["x"].block.constant("float32", 2.0))
    history = runtime.load(save(program, tmp_path, epochs=1)).train().history
    assert list(history) == ["epoch", "step", "loss", "rate", "metric.step", "evaluate.loss", "evaluate.step", "best"]
    assert (history["step"], history["metric.step"]) == ([PER_EPOCH], [2.0])


def test_an_interrupted_training_keeps_its_steps_and_its_epochs(tmp_path):
    path = save(rich(), tmp_path)
    whole = runtime.load(path)
    whole.train()
    run, calls = runtime.load(path), 0

    def between():
        nonlocal calls
        calls += 1
        if calls == PER_EPOCH + 6:  # an evaluation of three steps, and then some steps of the second epoch
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.train(between=between)
    first = run.result
    assert PER_EPOCH < first.steps == run.position.steps < 2 * PER_EPOCH
    assert first.history["epoch"] == [1]
    rest = run.train()
    assert first.steps + rest.steps == 3 * PER_EPOCH
    assert rest.history["epoch"] == [2, 3]
    assert run.states.sha256() == whole.states.sha256()


def test_a_signal_ends_a_training_between_two_steps(tmp_path):
    path = save(rich(), tmp_path)
    run = runtime.load(path)

    def interrupt():
        while run.position.steps < 10:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run.train(epochs=10**6)
    assert 10 <= run.position.steps == run.result.steps
    thread.join()


def test_the_text_of_a_result_names_steps_metrics_and_epochs(tmp_path):
    result = runtime.load(save(linear(), tmp_path, epochs=2)).train()
    first, head, *rows = repr(result).splitlines()
    loss, evaluated = (f"{result.metrics[name]:.4g}" for name in ("loss", "evaluate.loss"))
    assert first.startswith("<TrainingResult: 14 steps in ")
    assert first.endswith(f" s, best epoch 2, loss {loss}, rate 0.1, evaluate.loss {evaluated}>")
    assert head.split() == ["epoch", "step", "loss", "rate", "evaluate.loss", "best"]
    assert rows[1].split() == ["2", "14", loss, "0.1", evaluated, "True"]
    assert f"<td>{loss}</td>" in result._repr_html_()


def test_a_long_table_shows_its_ends(tmp_path):
    history = runtime.load(save(linear(), tmp_path, evaluate=None, keep_best=None)).train(epochs=EPOCHS + 5).history
    lines = repr(history).splitlines()
    assert len(lines) == EPOCHS + 2
    assert [line.split()[0] for line in (lines[10], lines[11], lines[12], lines[-1])] == ["10", "…", "16", "25"]


def test_a_result_is_not_the_events(tmp_path):
    result = runtime.load(save(linear(), tmp_path)).train()
    wanted = "Run.train trains and returns its result; Run.events yields the events of a training"
    for use in (list, iter, next):
        with pytest.raises(TypeError) as caught:
            use(result)
        assert str(caught.value) == wanted


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch, path, stream: io.StringIO, **options) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    runtime.load(path).train(**options)
    return stream.getvalue()


def test_progress_is_shown_where_it_is_asked_for(tmp_path, monkeypatch):
    path = save(linear(), tmp_path)
    lines = shown(monkeypatch, path, io.StringIO(), progress=True)
    assert "epoch 3  step 21/21" in lines
    assert "evaluate on test: loss " in lines
    assert shown(monkeypatch, path, io.StringIO()) == ""
    assert shown(monkeypatch, path, Terminal(), progress=False) == ""
    assert "21/21" in shown(monkeypatch, path, Terminal())
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert shown(monkeypatch, path, io.StringIO()) == ""  # which a notebook shows as an error
    assert "21/21" in sys.stdout.getvalue()


def test_another_word_for_progress_is_refused_before_the_first_step(tmp_path):
    run = runtime.load(save(linear(), tmp_path))
    with pytest.raises(runtime.UsageError) as caught:
        run.train(progress="bar")
    assert str(caught.value) == "train: progress='bar' is neither True, False nor 'auto'"
    assert run.position.steps == 0


def test_arrays_of_the_caller_are_trained_on_by_both(tmp_path):
    path = save(linear(), tmp_path)
    data = {name: arrays()[name][:20] for name in ("x", "y")}
    other, _ = by_events(path, data=data, epochs=5)
    run = runtime.load(path)
    run.train(data=data, epochs=5)
    np.testing.assert_array_equal(run.state["w"], other.state["w"])

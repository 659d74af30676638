"""Further calls of train: on other rows, on the same rows, after an interrupt, from a checkpoint, and at the end."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from subjects.commands import fields, run_runtime, told

import prograd
from prograd import Program, StepEnd, adam, layers, ops, schedules, warmup_cosine
from prograd.callbacks import EarlyStopping
from runtime.errors import DataError, UsageError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((96, 4)).astype("float32")
Y = (X[:, 0] > 0).astype("int64")


def run_of(rate: object = 0.02, engine: str | None = None) -> prograd.Run:
    program = Program("p", seed=1)
    x, y = program.input("x", "float32", ("batch", 4)), program.input("y", "int64", ("batch",))
    program.minimize(ops.softmax_cross_entropy(layers.dense(x, "o", 2), y), adam(rate))
    return prograd.Run(program.compile(batch=16), engine=engine)


def chunk(first: int, last: int) -> dict[str, np.ndarray]:
    return {"x": X[first:last], "y": Y[first:last]}


def saved(folder: Path, rate: object = 0.02, **options: object) -> Path:
    """The program of a file, with rows of its own: 2 steps an epoch, 3 epochs."""
    splits = {"train": range(32), "test": range(32, 64)}
    prograd.data.write(folder / "rows.safetensors", {"x": X, "y": Y}, splits=splits)
    program = Program("p", seed=1)
    x, y = program.input("x", "float32", ("batch", 4)), program.input("y", "int64", ("batch",))
    program.minimize(ops.softmax_cross_entropy(layers.dense(x, "o", 2), y), adam(rate))
    program.data("rows.safetensors", splits={"train": "train", "test": "test"}, shuffle=True, remainder="drop")
    program.training(epochs=3, **options)
    program.compile(batch=16).save(folder / "p.pb")
    return folder / "p.pb"


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_each_call_trains_on_the_rows_that_it_is_given(engine: str):
    run, by_hand = run_of(engine=engine), run_of(engine=engine)
    for first, last, epochs in ((0, 32, 1), (32, 64, 2), (64, 96, 1)):
        result = run.train(data=chunk(first, last), epochs=epochs, shuffle=False)
        assert (result.steps, len(result.history["loss"])) == (2 * epochs, epochs)
        for _ in range(epochs):
            for start in range(first, last, 16):
                by_hand.step(chunk(start, start + 16))
    assert int(run.state["step"]) == int(run.state["total_steps"]) == run.position.steps == 8
    np.testing.assert_array_equal(run.state["o.w"], by_hand.state["o.w"])


def test_further_rows_may_be_of_another_number_and_epochs_count_on():
    run = run_of()
    found = [run.train(data=chunk(0, last), epochs=2).history["epoch"] for last in (32, 48, 20)]
    assert found == [[1, 2], [3, 4], [5, 6]]
    assert run.train(data=chunk(0, 64), steps=3).steps == 3  # ends within its first epoch
    assert run.train(data=chunk(0, 32), epochs=1).history["epoch"] == [8]


def test_the_same_rows_again_are_that_many_epochs_more():
    run, whole = run_of(), run_of()
    for _ in range(3):
        assert run.train(data=chunk(0, 32), epochs=2).steps == 4
    whole.train(data=chunk(0, 32), epochs=6)
    assert run.position.steps == 12
    np.testing.assert_array_equal(run.state["o.w"], whole.state["o.w"])


def test_an_interrupted_call_goes_on_to_its_own_end():
    run, whole = run_of(), run_of()
    run.train(data=chunk(0, 32), epochs=1)
    whole.train(data=chunk(0, 32), epochs=1)
    events = run.events(data=chunk(32, 96), epochs=2)
    while not isinstance(next(events), StepEnd):
        pass
    events.close()
    assert run.train(data=chunk(32, 96), epochs=2).steps == 7
    assert whole.train(data=chunk(32, 96), epochs=2).steps == 8
    assert run.state_sha256 == whole.state_sha256


def test_other_rows_end_an_interrupted_call():
    run = run_of()
    events = run.events(data=chunk(0, 64), epochs=5)
    next(events)
    events.close()
    assert run.train(data=chunk(64, 96), epochs=1).history["epoch"] == [2]
    assert run.position.steps == 3


def test_a_later_plan_resumes_from_its_checkpoint_to_the_same_bits(tmp_path):
    whole = run_of()
    whole.train(data=chunk(0, 32), epochs=1)
    whole.train(data=chunk(32, 96), epochs=3, checkpoint=tmp_path / "c", every=1, keep=20)
    run = run_of()
    run.resume(tmp_path / "c" / "step-0000000005.safetensors")
    with pytest.raises(DataError, match="the rows that the run trains on are not those that it began with"):
        run.train(data=chunk(0, 64), epochs=3)
    assert run.train(data=chunk(32, 96), epochs=3).steps == 9
    assert run.state_sha256 == whole.state_sha256


def test_a_finished_run_is_resumed_on_other_rows_where_this_is_asked_for(tmp_path, caplog):
    run = run_of()
    run.train(data=chunk(0, 32), epochs=2)
    run.save(tmp_path / "s.safetensors")
    again = run_of()
    again.resume(tmp_path / "s.safetensors")
    assert again.train(data=chunk(0, 32), epochs=2).steps == 0
    assert caplog.messages == ["the run is at its end after step 4, so nothing is trained; a larger epochs= goes on"]
    again = run_of()
    again.resume(tmp_path / "s.safetensors")
    assert again.train(data=chunk(32, 96), epochs=2, change_data=True).steps == 8


def test_a_source_of_rows_goes_on_as_well():
    run, whole = run_of(), run_of()
    batches = [chunk(start, start + 16) for start in range(0, 96, 16)]
    rows = iter(batches)
    for _ in range(3):
        assert run.train(data=rows, steps=2).steps == 2
    whole.train(data=iter(batches), steps=6)
    np.testing.assert_array_equal(run.state["o.w"], whole.state["o.w"])


def test_a_schedule_over_all_steps_does_not_take_a_further_call_for_granted():
    run = run_of(warmup_cosine(0.02))
    run.train(data=chunk(0, 32), epochs=2)
    assert told(UsageError, lambda: run.train(data=chunk(32, 64), epochs=1)) == (
        "the run began with 4 steps in all, this would be 6, which changes schedules; give the schedule a number of "
        "steps of its own, or go on with retarget_schedule=True and the epochs of all calls together"
    )
    assert run.train(data=chunk(32, 64), epochs=3, retarget_schedule=True).steps == 2
    fixed = run_of(schedules.cosine(0.02, steps=50))
    for first in (0, 32):
        assert fixed.train(data=chunk(first, first + 32), epochs=1).steps == 2


def test_the_best_states_of_earlier_rows_are_forgotten():
    run = run_of()
    options = {"validation_split": 0.5, "callbacks": [EarlyStopping(patience=2)]}
    run.train(data=chunk(0, 32), epochs=4, **options)
    others = {"x": X[:64] * 100, "y": Y[:64]}
    result = run.train(data=others, epochs=2, **options)
    assert result.best_epoch > 4
    assert run.position.steps > 4


@pytest.mark.parametrize("again", [False, True])
def test_the_plan_of_the_file_is_finished_and_says_so(again: bool, tmp_path, caplog):
    run = prograd.load(saved(tmp_path))
    assert run.train().steps == 6
    if again:
        run.save(tmp_path / "s.safetensors")
        run = prograd.load(tmp_path / "p.pb")
        run.resume(tmp_path / "s.safetensors")
    result = run.train()
    assert (result.steps, result.history["epoch"]) == (0, [])
    assert caplog.messages == ["the run is at its end after step 6, so nothing is trained; a larger epochs= goes on"]
    assert told(KeyError, lambda: result.history["loss"]) == "\"there is no column 'loss'; the call ended no epoch\""
    assert run.train(epochs=4).steps == 2  # the total of this run: one more


def test_the_plan_of_the_file_follows_rows_of_a_call(tmp_path):
    run = prograd.load(saved(tmp_path))
    assert run.train(data=chunk(0, 64), epochs=1).steps == 4
    assert run.train().steps == 6
    assert run.train().steps == 0
    assert run.position.steps == 10


def test_a_longer_run_needs_no_permission_where_no_schedule_depends_on_its_length(tmp_path, monkeypatch, capsys):
    saved(tmp_path)
    monkeypatch.chdir(tmp_path)
    words = "execute", "p.pb", "--checkpoint", "c"
    run_runtime(capsys, *words)
    code, out, err = run_runtime(capsys, *words, "--resume")
    assert (code, fields(out[-1])["steps"]) == (0, "6")
    assert "runtime: the run is at its end after step 6, so nothing is trained; a larger --epochs goes on\n" in err
    code, out, _ = run_runtime(capsys, *words, "--resume", "--epochs", "5", "-q")
    whole = run_runtime(capsys, "execute", "p.pb", "--epochs", "5", "-q")[1]
    assert fields(out[-1])["state_sha256"] == fields(whole[-1])["state_sha256"]


def test_a_run_that_stopped_early_says_that_it_is_at_its_end(tmp_path, caplog):
    path = saved(tmp_path, rate=5.0, evaluate="test", keep_best="loss", stop_after=1)
    prograd.load(path).train(checkpoint=tmp_path / "c", epochs=50)
    run = prograd.load(path)
    run.resume(tmp_path / "c")
    steps = run.position.steps
    with caplog.at_level(logging.WARNING):
        assert run.train(epochs=50).steps == 0
    assert caplog.messages == [
        f"the run is at its end after step {steps}, so nothing is trained; a larger epochs= goes on"
    ]

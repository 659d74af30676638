"""Steps in a loop of the caller's: the steps of `run.step`, by position or name, with kept states, on both engines."""

from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from subjects.commands import told

import prograd
from prograd import DataError, Program, Run, UsageError, adam, layers, metrics, ops
from runtime.errors import OutOfRange

ENGINES = pytest.mark.parametrize("engine", ["reference", "native"])


def classifier(**sizes: Any) -> Any:
    program = Program("classifier", seed=4)
    x = program.input("x", "float32", ("batch", 64))
    label = program.input("label", "int64", ("batch",))
    scores = layers.dense(ops.relu(layers.dense(x, "hidden", 128)), "output", 10)
    program.minimize(ops.softmax_cross_entropy(scores, label), adam(1e-3))
    program.metrics(mean=metrics.accuracy(scores, label))
    program.outputs(scores=scores, best=ops.argmax(scores))
    return program.compile(**(sizes or {"batch": (1, 32)}))


def rows(count: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((count, 64)).astype(np.float32), "label": rng.integers(0, 10, count)}


@pytest.mark.sampled(3)
@ENGINES
@pytest.mark.parametrize("count", [1, 32])
def test_the_steps_are_those_of_run_step(count: int, engine: Any):
    by_hand, prepared, kept = (Run(classifier(), engine=engine) for _ in range(3))
    step, inside = prepared.stepper(), kept.stepper(fetch="loss")
    for seed in range(4):
        given = rows(count, seed)
        wanted = by_hand.step(given)
        assert step(given["x"], given["label"]) == {name: array.item() for name, array in wanted.items()}
        with inside:
            assert inside(given["x"], given["label"]) == wanted["loss"]
            assert inside(label=given["label"], x=given["x"]) == by_hand.step(given)["loss"]
        step(**given)
    assert by_hand.state_sha256 == prepared.state_sha256 == kept.state_sha256


@ENGINES
def test_a_row_alone_is_a_step_of_one_row(engine: Any):
    one, other = (Run(classifier(), engine=engine) for _ in range(2))
    step, same = one.stepper(fetch=("loss", "rate")), other.stepper(fetch=("loss", "rate"))
    for seed in range(3):
        given = rows(1, seed)
        with same:
            wanted = same(given["x"], given["label"])
            assert step(given["x"][0], int(given["label"][0])) == wanted
            assert step(given["x"][0].tolist(), given["label"][0]) == same(given["x"][0], given["label"][0])
    assert one.state_sha256 == other.state_sha256


def test_what_a_call_returns_is_as_asked():
    run = Run(classifier())
    x = rows(32)["x"]
    assert list(run.stepper("predict")(x)) == ["scores", "best"]
    scores, best = run.stepper("predict", fetch=("scores", "best"))(x)
    np.testing.assert_array_equal(best, scores.argmax(axis=1))
    np.testing.assert_array_equal(run.step({"x": x}, entry="predict")["scores"], scores)
    assert type(run.stepper(fetch="loss")(*rows(32).values())) is float


@ENGINES
def test_arrays_are_copies_outside_of_with_and_views_inside(engine: Any):
    run = Run(classifier(), engine=engine)
    step, x, z = run.stepper("predict", fetch="scores"), rows(32)["x"], rows(32, 1)["x"]
    first = step(x)
    assert not np.shares_memory(first, step(z))
    with step:
        shown = step(x)
        np.testing.assert_array_equal(shown, first)
        assert np.shares_memory(shown, step(z))


def test_steps_for_other_rows_are_compiled_when_they_are_needed():
    run, fixed = Run(classifier()), Run(classifier(batch=7))
    step, same = run.stepper(fetch="loss"), fixed.stepper(fetch="loss")
    for seed in range(2):
        assert step(*rows(7, seed).values()) == same(*rows(7, seed).values())
    with step, same:
        assert step(*rows(32).values()) > 0
        assert step(*rows(7, 3).values()) == pytest.approx(same(*rows(7, 3).values()), rel=0.2)


def test_a_file_takes_the_rows_it_was_compiled_for(tmp_path: Path):
    classifier().save(tmp_path / "c.pb")
    step = prograd.load(tmp_path / "c.pb").stepper()
    step(*rows(32).values())
    with pytest.raises(DataError, match=r"^entry 'train' takes 32 or 1 rows a step, and 7 are given$"):
        step(*rows(7).values())


@ENGINES
def test_states_are_seen_and_set_between_steps(engine: Any):
    run = Run(classifier(), engine=engine)
    step = run.stepper()
    weights, before = step.state("hidden.w"), run.state["hidden.w"]
    with step:
        step(*rows(32).values())
        assert not np.array_equal(weights, before)
        run.state["hidden.w"] = before
        np.testing.assert_array_equal(weights, before)
    with pytest.raises(ValueError, match="read-only"):
        weights[...] = 0


@ENGINES
def test_an_agent_acts_and_learns_in_turns(engine: Any):
    kept, by_hand = (Run(classifier(), engine=engine) for _ in range(2))
    act, learn = kept.stepper("predict", fetch="scores"), kept.stepper("train")
    with learn, act:
        for seed in range(3):
            given = rows(32, seed)
            learn(*given.values())
            by_hand.step(given)
            wanted = by_hand.step({"x": given["x"]}, entry="predict")["scores"]
            np.testing.assert_array_equal(act(given["x"]), wanted)


def test_metrics_of_a_step_that_does_not_train_are_of_this_step():
    run = Run(classifier())
    step = run.stepper("evaluate")
    for given in (rows(32), rows(32, 1)):
        wanted = {name: array.item() for name, array in run.step(given, entry="evaluate").items()}
        with step:
            assert step(*given.values()) == step(*given.values()) == wanted
        assert step(*given.values()) == wanted


def test_other_threads_wait_until_the_run_is_given_back():
    run = Run(classifier())
    step, ends = run.stepper(), list[str]()
    thread = Thread(target=lambda: ends.append(f"{run.step(rows(32))} other"[-5:]))
    with step:
        thread.start()
        for _ in range(3):
            step(*rows(32).values())
        ends.append("kept")
    thread.join()
    assert ends == ["kept", "other"]


REFUSED = [
    (lambda step: step(1, 2, 3), "entry 'train' has 2 feeds, x, label, and 3 arrays are given"),
    (lambda step: step(rows(1)["x"], x=rows(1)["x"]), "the feed 'x' is given twice, by position and by name"),
    (
        lambda step: step(rows(1)["x"]),
        "entry 'train' reads the feed 'label': int64[rows], which is not given; give an array for each feed, or "
        "declare rows by program.data",
    ),
    (
        lambda step: step(rows(1)["x"], labels=rows(1)["label"]),
        "entry 'train' has no feed 'labels'; did you mean 'label'?",
    ),
]


def test_another_thread_with_the_same_stepper_waits_too():
    run = Run(classifier())
    step, ends = run.stepper("train", fetch="loss"), list[str]()
    step(*rows(32).values())
    thread = Thread(target=lambda: ends.append(f"{step(*rows(32).values())} other"[-5:]))
    with step:
        thread.start()
        thread.join(0.2)
        ends.append("kept")
    thread.join()
    assert ends == ["kept", "other"]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_arrays_that_do_not_fit_are_refused_inside_and_outside(call: Any, message: str):
    step = Run(classifier()).stepper()
    step(*rows(1).values())
    assert told(DataError, lambda: call(step)) == message
    with step:
        step(*rows(1).values())
        with pytest.raises(DataError) as inside:
            call(step)
    assert str(inside.value) == message


@ENGINES
def test_a_label_out_of_range_is_named_with_its_row_and_changes_nothing(engine: Any):
    run = Run(classifier(), engine=engine)
    step, given = run.stepper(), rows(32)
    step(*given.values())
    before = run.state["hidden.w"]
    given["label"][5] = 10
    with pytest.raises(OutOfRange, match="row 5") as outside:
        step(*given.values())
    with step, pytest.raises(OutOfRange) as inside:
        step(*given.values())
    assert str(outside.value) == str(inside.value)
    np.testing.assert_array_equal(run.state["hidden.w"], before)


def test_a_stepper_is_entered_once():
    step = Run(classifier()).stepper()
    with step:
        with pytest.raises(UsageError) as again:
            step.__enter__()
        step(*rows(1).values())
    assert str(again.value) == "the steps of 'train' are inside of with already; make another stepper"
    step(*rows(1).values())


def test_unknown_names_are_refused():
    run = Run(classifier())
    with pytest.raises(UsageError, match=r"has no fetch and no tensor 'los'; did you mean 'loss'\?"):
        run.stepper(fetch="los")
    with pytest.raises(UsageError, match=r"^the program has no state 'hidden'"):
        run.stepper().state("hidden")

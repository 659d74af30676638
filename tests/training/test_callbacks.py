"""Callbacks of a training: their calls, what they may do to the run, and the sentences that answer mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from subjects.commands import told

import prograd
from prograd import CheckpointWritten, EpochEnd, EvaluationEnd, Program, Run, StepEnd, layers, ops, sgd
from prograd.callbacks import Callback, EarlyStopping, ReduceOnPlateau

ROWS, BATCH, WIDTH = 96, 32, 64
RNG = np.random.default_rng(0)
X = RNG.standard_normal((ROWS, WIDTH)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64)


@pytest.fixture(params=["reference", "native"])
def engine(request: pytest.FixtureRequest) -> Any:
    return request.param


def run_of(engine: Any = None) -> Run:
    program = Program("called", seed=7)
    x, y = program.input("x", "float32", ("batch", WIDTH)), program.input("y", "int64", ("batch",))
    scores = layers.dense(x, "out", 2)
    program.minimize(ops.softmax_cross_entropy(scores, y), sgd(program.setting("rate", 0.1)))
    program.fetch("score", ops.max(scores))
    program.outputs(scores=scores)
    return Run(program.compile(batch=BATCH), engine=engine)


class Recorder(Callback):
    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int]] = []

    def on_train_begin(self) -> None:
        self._note("begin")

    def on_step_end(self, event: StepEnd) -> None:
        assert self.run.position.steps == event.step
        self._note("step")

    def on_epoch_end(self, event: EpochEnd) -> None:
        assert event.metrics["loss"] > 0
        self._note("epoch")

    def on_evaluation_end(self, event: EvaluationEnd) -> None:
        assert event.metrics["loss"] == pytest.approx(self.run.evaluate((X[:40], Y[:40]))["loss"])
        self._note("evaluation")

    def on_checkpoint(self, event: CheckpointWritten) -> None:
        assert event.path.exists()
        self._note("checkpoint")

    def on_train_end(self) -> None:
        self._note("end")

    def _note(self, what: str) -> None:
        self.calls.append((what, self.run.position.epoch, self.run.position.steps))


def test_the_methods_are_called_in_the_order_of_the_events(engine: Any, tmp_path: Path):
    recorder = Recorder()
    seen: list[str] = []
    run = run_of(engine)
    run.train(
        data=(X, Y),
        validation_data=(X[:40], Y[:40]),
        epochs=2,
        checkpoint=tmp_path / "c",
        callbacks=[recorder, lambda event: seen.append(type(event).__name__)],
        progress=False,
    )
    steps = [[("step", epoch, 3 * epoch + step) for step in (1, 2, 3)] for epoch in (0, 1)]
    closed = [[(what, epoch, 3 * epoch) for what in ("epoch", "evaluation", "checkpoint")] for epoch in (1, 2)]
    steps[0][2], steps[1][2] = ("step", 0, 3), ("step", 1, 6)
    assert recorder.calls == [("begin", 0, 0), *steps[0], *closed[0], *steps[1], *closed[1], ("end", 2, 6)]
    assert seen == (["StepEnd"] * 3 + ["EpochEnd", "EvaluationEnd", "CheckpointWritten"]) * 2


def test_events_calls_them_too_and_the_bits_are_those_without(engine: Any):
    plain, called = run_of(engine), run_of(engine)
    plain.train(data=(X, Y), epochs=2, progress=False)
    recorder = Recorder()
    assert len(list(called.events(data=(X, Y), epochs=2, callbacks=[recorder]))) == 8
    assert [what for what, *_ in recorder.calls].count("step") == 6
    assert called.state_sha256 == plain.state_sha256


class EpochsOnly(Callback):
    def on_epoch_end(self, event: EpochEnd) -> None:
        self.run.set(rate=0.1 / (event.epoch + 1))


def test_a_callback_of_epochs_sets_the_rate_of_the_next_one(engine: Any):
    run = run_of(engine)
    result = run.train(data=(X, Y), epochs=4, callbacks=[EpochsOnly()], progress=False)
    assert result.history["rate"] == pytest.approx([0.1, 0.05, 0.1 / 3, 0.025])
    by_hand = run_of(engine)
    for epoch in range(1, 5):
        by_hand.set(rate=0.1 / epoch)
        by_hand.train(data=(X, Y), steps=3 * epoch, retarget_schedule=True, progress=False)
    np.testing.assert_array_equal(run.state["out.w"], by_hand.state["out.w"])


def test_a_callback_stops_the_run_and_a_later_call_continues(engine: Any):
    run, whole = run_of(engine), run_of(engine)
    whole.train(data=(X, Y), epochs=4, progress=False)

    def stop(event: prograd.Event) -> None:
        if isinstance(event, StepEnd) and event.step == 5:
            run.stop()

    result = run.train(data=(X, Y), epochs=4, callbacks=[stop], progress=False)
    assert (run.position.steps, result.history["step"]) == (5, [3, 5])
    rest = run.train(data=(X, Y), epochs=4, progress=False)
    assert (run.position.steps, rest.history["step"]) == (12, [6, 9, 12])
    assert run.state_sha256 == whole.state_sha256


class Pruned(Exception):
    """An error of a caller, as searches raise it to end a trial."""


class Failing(Callback):
    ended = False
    error = Pruned("boom")

    def on_epoch_end(self, event: EpochEnd) -> None:
        raise self.error

    def on_train_end(self) -> None:
        self.ended = True


def failing(event: object) -> None:
    raise KeyError("no such thing")


def test_an_error_of_a_callback_passes_on_unchanged_and_the_run_goes_on_later(engine: Any):
    run, whole, callback = run_of(engine), run_of(engine), Failing()
    with pytest.raises(Pruned) as caught:
        run.train(data=(X, Y), epochs=3, callbacks=[callback], progress=False)
    assert caught.value is Failing.error
    assert caught.value.__cause__ is None
    assert (callback.ended, run.position.steps) == (True, 3)
    with pytest.raises(KeyError, match="no such thing"):
        run.train(data=(X, Y), epochs=3, callbacks=[failing], progress=False)
    run.train(data=(X, Y), epochs=3, progress=False)
    whole.train(data=(X, Y), epochs=3, progress=False)
    assert run.state_sha256 == whole.state_sha256


def test_an_interrupt_in_a_callback_passes_on(engine: Any):
    def interrupt(event: object) -> None:
        raise KeyboardInterrupt

    run = run_of(engine)
    with pytest.raises(KeyboardInterrupt):
        run.train(data=(X, Y), epochs=3, callbacks=[interrupt], progress=False)
    assert run.position.steps == 1


REFUSED: list[tuple[Any, str]] = [
    (Recorder, "callbacks is of type type: give a list, as in callbacks=[report]"),
    ([Recorder], "callbacks: Recorder is a class; give an object, as in Recorder()"),
    ([3], "callbacks: 3 is neither a function of an event nor an object of a subclass of prograd.callbacks.Callback"),
    ([EarlyStopping(), EarlyStopping()], "callbacks: EarlyStopping is given twice; a run ends by one metric"),
    (
        [ReduceOnPlateau(), ReduceOnPlateau()],
        "callbacks: two of ReduceOnPlateau reduce the setting 'rate'; give one for each setting",
    ),
    (
        [ReduceOnPlateau(setting="lr")],
        "ReduceOnPlateau: the program has no setting 'lr'; declare it, as in program.setting('lr', 1e-3), and use it "
        "as a rate",
    ),
    (
        [EarlyStopping(monitor="score")],
        "EarlyStopping: monitor='score' does not say whether lower or higher values are better; give mode='min' or "
        "mode='max'",
    ),
    (
        [EarlyStopping(monitor="val_loss")],
        "the run watches 'val_loss', and it does not evaluate; give validation_data= or validation_split=, and write "
        "'loss'",
    ),
    (
        [EarlyStopping(monitor="los", mode="min")],
        "the run watches 'los', which is no scalar that it reports; did you mean 'loss'?",
    ),
    (
        [ReduceOnPlateau(monitor="f1")],
        "the run watches 'f1', which is no scalar that it reports; there are loss, rate, score, train.loss, "
        "train.rate, train.score",
    ),
]


@pytest.mark.parametrize(("callbacks", "sentence"), REFUSED, ids=[sentence[:50] for _, sentence in REFUSED])
def test_what_is_no_callback_is_one_sentence(callbacks: Any, sentence: str):
    run = run_of()
    with pytest.raises(prograd.UsageError) as caught:
        run.train(data=(X, Y), epochs=3, callbacks=callbacks, progress=False)
    assert str(caught.value) == sentence
    assert run.position.steps == 0


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: EarlyStopping(patience=0), "EarlyStopping: patience=0 is no whole number from 1 on"),
        (lambda: EarlyStopping(min_delta=-1.0), "EarlyStopping: min_delta=-1.0 is no number from 0 on"),
        (lambda: EarlyStopping(mode="auto"), "EarlyStopping: mode='auto' is neither 'min' nor 'max'"),  # type: ignore[arg-type]
        (lambda: ReduceOnPlateau(factor=1.0), "ReduceOnPlateau: factor=1.0 is no number between 0 and 1"),
        (lambda: ReduceOnPlateau(cooldown=1.5), "ReduceOnPlateau: cooldown=1.5 is no whole number from 0 on"),  # type: ignore[arg-type]
    ],
)
def test_arguments_of_callbacks_are_checked(make: Any, sentence: str):
    assert told(prograd.UsageError, make) == sentence


def test_the_best_checkpoints_are_kept_besides_the_newest(engine: Any, tmp_path: Path):
    run = run_of(engine)
    options: dict[str, Any] = {"data": (X, Y), "validation_data": (X[:40], 1 - Y[:40]), "epochs": 9}
    callback = EarlyStopping(monitor="loss", patience=9)  # the labels are exchanged, so the first epochs are the best
    run.train(**options, callbacks=[callback], checkpoint=tmp_path / "c", keep=2, keep_best=3, progress=False)
    names = sorted(int(file.stem.split("-")[1]) for file in (tmp_path / "c").glob("step-*"))
    assert names == [3, 6, 9, 24, 27]
    for asked, sentence in (
        (
            {"checkpoint": "c"},
            "keep_best keeps the checkpoints of the best evaluations, and the program does not say by "
            "which metric; say it by program.training(keep_best='loss', …), or by a callback EarlyStopping",
        ),
        ({"callbacks": [callback]}, "keep_best keeps checkpoints; name their folder by checkpoint="),
    ):
        with pytest.raises(prograd.UsageError) as caught:
            run_of(engine).train(**options, **asked, keep_best=3, progress=False)
        assert str(caught.value) == sentence


def interrupted(folder: Path, callbacks: list[Any]) -> Run:
    """A run of six epochs that stood after two, whose best states are those of the first, and that is resumed."""
    run = run_of()

    def climb(event: Any) -> None:
        run.set(rate=0.1 if event.step < 3 else 3.0)

    run.train(data=(X, Y), epochs=6, checkpoint=folder, callbacks=[*callbacks, climb, Stop(6)], progress=False)
    resumed = run_of()
    resumed.resume(folder)
    return resumed


class Stop(Callback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, event: StepEnd) -> None:
        if event.step == self.step:
            self.run.stop()


def test_a_run_that_is_resumed_without_early_stopping_ends_with_its_last_states(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """The best states of the earlier call would take away all that the later one trains."""
    plain = interrupted(tmp_path / "plain", [])
    plain.train(data=(X, Y), epochs=6, progress=False)
    run = interrupted(tmp_path / "judged", [EarlyStopping(patience=5, monitor="score", mode="min")])
    caplog.clear()
    result = run.train(data=(X, Y), epochs=6, progress=False)
    assert run.state["step"] == 18
    assert run.state_sha256 == plain.state_sha256
    assert result.history["epoch"] == [3, 4, 5, 6]
    assert caplog.messages == [
        "the run kept the states of step 3, which have the best score (min), and keeps no best states from here on; "
        "those are forgotten"
    ]


def test_a_metric_is_not_compared_with_the_best_value_of_another(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    by_loss = [EarlyStopping(monitor="score", mode="min"), ReduceOnPlateau(monitor="score", mode="min", patience=9)]
    run = interrupted(tmp_path / "judged", by_loss)
    caplog.clear()
    by_score = [EarlyStopping(monitor="loss"), ReduceOnPlateau(monitor="score", mode="max", patience=9)]
    history = run.train(data=(X, Y), epochs=6, callbacks=by_score, progress=False).history
    assert run.position.best_metric == min(history["loss"])
    assert run.position.watches["rate"].best == max(history["score"])
    assert caplog.messages[0] == (
        "the run kept the states of step 3, which have the best score (min), and judges by loss (min) from here on; "
        "those are forgotten"
    )


def test_a_run_that_ended_early_goes_on_with_more_patience(tmp_path: Path):
    strict = EarlyStopping(patience=1, min_delta=9.0, restore_best=False)
    run_of().train(data=(X, Y), epochs=6, checkpoint=tmp_path, callbacks=[strict], progress=False)
    for patience, steps in ((1, 6), (9, 18)):
        run = run_of()
        run.resume(tmp_path)
        patient = EarlyStopping(patience=patience, min_delta=9.0, restore_best=False)
        run.train(data=(X, Y), epochs=6, callbacks=[patient], progress=False)
        assert run.state["step"] == steps


@pytest.mark.parametrize(
    ("name", "instead"),
    [("ReduceLROnPlateau", "ReduceOnPlateau"), ("ModelCheckpoint", "run.train(checkpoint='folder', keep_best=3)")],
)
def test_names_of_keras_have_a_replacement(name: str, instead: str):
    with pytest.raises(AttributeError) as caught:
        getattr(prograd.callbacks, name)
    assert str(caught.value) == f"there is no {name!r} in prograd.callbacks; write {instead}"
    with pytest.raises(AttributeError, match="EarlyStopping"):
        _ = prograd.callbacks.EarlyStoping  # type: ignore[attr-defined]

"""Rates that are reduced and runs that end when a metric stops improving: declared in a program, and as callbacks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from subjects.commands import told

import prograd
from prograd import Program, Run, layers, ops, schedules, sgd
from prograd.callbacks import EarlyStopping, ReduceOnPlateau
from prograd_proto.text import from_text, to_text
from runtime.__main__ import main

WIDTH, BATCH, EPOCHS = 64, 32, 30
RNG = np.random.default_rng(3)
X = RNG.standard_normal((160, WIDTH)).astype(np.float32)
Y = (X[:, :4].sum(axis=1) + RNG.standard_normal(160) > 0).astype(np.int64)
SPLITS = {"train": range(96), "test": range(96, 160)}


@pytest.fixture(params=["reference", "native"])
def engine(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    prograd.data.write("rows.safetensors", {"x": X, "y": Y}, splits=SPLITS)


def network(rate: Any = 0.5, **training: Any) -> Program:
    """Return a network that overfits, so that the loss of its evaluation rises soon."""
    program = Program("plateau", seed=2)
    x, y = program.input("x", "float32", ("batch", WIDTH)), program.input("y", "int64", ("batch",))
    if rate == "setting":
        rate = program.setting("rate", 0.5)
    scores = layers.dense(ops.relu(layers.dense(layers.dropout(x, 0.2), "hidden", 64)), "out", 2)
    program.minimize(ops.softmax_cross_entropy(scores, y), sgd(rate))
    program.metrics(accuracy=ops.accuracy(scores, y))
    program.data("rows.safetensors", splits={name: name for name in SPLITS}, shuffle=True, remainder="drop")
    program.training(**{"epochs": EPOCHS, "evaluate": "test"} | training)
    return program


def saved(program: Program, name: str = "p.pb") -> str:
    program.compile(batch=BATCH).save(name, force=True)
    return name


def rates_by_hand(
    losses: Sequence[float], rate: float, *, factor: float, patience: int, min_delta: float, cooldown: int, least: float
) -> list[float]:
    """Return the rate of each epoch, from the values that the run judged after each."""
    rates, scale, best, wait, calm = [rate], 1.0, np.inf, 0, 0
    for loss in losses[:-1]:
        counts = calm == 0
        calm -= calm > 0
        if loss < best - min_delta:
            best, wait = loss, 0
        elif counts:
            wait += 1
        else:
            wait = 0
        if wait == patience:
            scale, wait, calm = scale * factor, 0, cooldown
        rates.append(max(rate * scale, least))
    return rates


CASES: list[dict[str, Any]] = [
    {"factor": 0.5, "patience": 2, "min_delta": 0.0, "cooldown": 0, "least": 0.0},
    {"factor": 0.1, "patience": 1, "min_delta": 0.02, "cooldown": 3, "least": 0.004},
    {"factor": 0.7, "patience": 3, "min_delta": 1e-4, "cooldown": 1, "least": 0.0},
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES)
def test_the_rates_are_those_of_the_rule_by_hand(case: dict[str, Any], engine: Any):
    arguments = {name: case[name] for name in ("factor", "patience", "min_delta", "cooldown")}
    rate = schedules.reduce_on_plateau(0.5, min_rate=case["least"], monitor="loss", **arguments)
    history = prograd.load(saved(network(rate)), engine=engine).train(progress=False).history
    expected = rates_by_hand(history["evaluate.loss"], 0.5, **case)
    assert history["rate"] == pytest.approx(expected, rel=1e-6)
    assert len(set(expected)) > 2
    callback = ReduceOnPlateau(monitor="loss", min_rate=case["least"], **arguments)
    run = prograd.load(saved(network("setting"), "s.pb"), engine=engine)
    assert run.train(progress=False, callbacks=[callback]).history["rate"] == pytest.approx(expected, rel=1e-6)


def test_a_schedule_is_reduced_and_a_rate_below_the_least_stays(engine: Any):
    rate = schedules.reduce_on_plateau(
        schedules.linear_warmup(0.5, steps=30), factor=0.1, patience=1, min_rate=0.2, monitor="train.loss", mode="max"
    )
    history = prograd.load(saved(network(rate)), engine=engine).train(progress=False).history
    warm = [0.5 * min((step - 1) / 30, 1.0) for step in history["step"]]
    assert history["rate"][-1] == pytest.approx(0.2)
    assert history["rate"][:4] == pytest.approx(warm[:4], rel=1e-6)


def stopped(losses: Sequence[float], patience: int, min_delta: float) -> int:
    """Return the number of epochs after which a run stops."""
    best, wait = np.inf, 0
    for epoch, loss in enumerate(losses, 1):
        best, wait = (loss, 0) if loss < best - min_delta else (best, wait + 1)
        if wait == patience:
            return epoch
    return len(losses)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("patience", "min_delta"), [(3, 0.0), (2, 0.03), (4, 0.01)])
def test_a_run_stops_after_its_patience(patience: int, min_delta: float, engine: Any):
    losses = prograd.load(saved(network()), engine=engine).train(progress=False).history["evaluate.loss"]
    expected = stopped(losses, patience, min_delta)
    assert 3 < expected < EPOCHS
    declared = network(keep_best="loss", stop_after=patience, min_delta=min_delta)
    by_file = prograd.load(saved(declared), engine=engine)
    result = by_file.train(progress=False)
    assert result.history["evaluate.loss"] == losses[:expected]
    assert result.metrics["evaluate.loss"] == min(losses[:expected])
    plain = saved(network(), "plain.pb")
    by_callback = prograd.load(plain, engine=engine)
    by_callback.train(progress=False, callbacks=[EarlyStopping(patience=patience, min_delta=min_delta)])
    assert by_callback.state_sha256 == by_file.state_sha256
    last = prograd.load(plain, engine=engine)
    callback = EarlyStopping(patience=patience, min_delta=min_delta, restore_best=False)
    result = last.train(progress=False, callbacks=[callback])
    assert result.metrics["evaluate.loss"] == losses[expected - 1]
    assert result.best_epoch == int(np.argmin(losses[:expected])) + 1
    whole = prograd.load(plain, engine=engine)
    whole.train(epochs=expected, progress=False)
    np.testing.assert_array_equal(whole.state["hidden.w"], last.state["hidden.w"])


def test_a_run_without_evaluation_is_judged_by_its_training(engine: Any):
    run = Run(network("setting").compile(batch=BATCH), engine=engine)
    result = run.train(
        data=(X, Y),
        validation_split=0.4,
        epochs=20,
        callbacks=[EarlyStopping(monitor="train.loss", patience=20), ReduceOnPlateau(monitor="accuracy", patience=2)],
        progress=False,
    )
    assert result.best_epoch == int(np.argmin(result.history["loss"])) + 1
    assert result.history["rate"][-1] < 0.5


PLATEAU = {"factor": 0.5, "patience": 2, "cooldown": 1, "min_delta": 0.01}


def resumable(kind: str) -> tuple[Program, dict[str, Any]]:
    if kind == "file":
        rate = schedules.reduce_on_plateau(0.5, **PLATEAU)
        return network(rate, keep_best="loss", stop_after=6, min_delta=0.02, best_checkpoints=2), {}
    callbacks = [ReduceOnPlateau(**PLATEAU), EarlyStopping(patience=6, min_delta=0.02)]
    return network("setting"), {"callbacks": callbacks, "keep_best": 2}


@pytest.mark.thorough
@pytest.mark.parametrize("every", [None, 4])
@pytest.mark.parametrize("kind", ["file", "callbacks"])
def test_a_run_that_is_cut_anywhere_resumes_to_the_same_bits_and_files(kind: str, every: int | None, engine: Any):
    program, options = resumable(kind)
    path = saved(program)
    whole = prograd.load(path, engine=engine)
    result = whole.train(checkpoint="whole", every=every, progress=False, **options)
    assert len(set(result.history["rate"])) > 2
    assert len(result.history["epoch"]) < EPOCHS
    steps = result.history["step"][-1]
    for cut in (4, 7, 12, 19, steps - 5):
        folder = f"c{cut}"
        run = prograd.load(path, engine=engine)
        events = run.events(checkpoint=folder, every=every, **options)
        for event in events:
            if event.step >= cut and isinstance(event, prograd.StepEnd):
                break
        events.close()  # as a kill: what was not written is lost
        again = prograd.load(path, engine=engine)
        if list(Path(folder).glob("step-*")):
            again.resume(folder)
        again.train(checkpoint=folder, every=every, progress=False, **options)
        assert again.state_sha256 == whole.state_sha256
        files = sorted(file.name for file in Path("whole").glob("step-*"))
        assert sorted(file.name for file in Path(folder).glob("step-*")) == files
        assert all(Path(folder, name).read_bytes() == Path("whole", name).read_bytes() for name in files)


def test_settings_stand_in_for_the_numbers_of_a_file(engine: Any, capsys: pytest.CaptureFixture[str]):
    def built(patience: int, factor: float, stop: int, *, settings: bool) -> str:
        program = Program("plateau", seed=2)
        x, y = program.input("x", "float32", ("batch", WIDTH)), program.input("y", "int64", ("batch",))
        numbers: list[Any] = [patience, factor, stop]
        if settings:
            numbers = [
                program.setting("patience", 9, dtype="int64"),
                program.setting("factor", 0.9),
                program.setting("stop", 20, dtype="int64", least=0),
            ]
        rate = schedules.reduce_on_plateau(0.5, patience=numbers[0], factor=numbers[1])
        scores = layers.dense(ops.relu(layers.dense(x, "hidden", 64)), "out", 2)
        program.minimize(ops.softmax_cross_entropy(scores, y), sgd(rate))
        program.data("rows.safetensors", splits={name: name for name in SPLITS}, shuffle=True, remainder="drop")
        program.training(epochs=EPOCHS, evaluate="test", keep_best="loss", stop_after=numbers[2])
        return saved(program, f"{'s' if settings else 'n'}.pb")

    numbers = prograd.load(built(2, 0.5, 7, settings=False), engine=engine)
    expected = numbers.train(progress=False)
    path = built(2, 0.5, 7, settings=True)
    run = prograd.load(path, engine=engine, settings={"patience": 2, "factor": 0.5, "stop": 7})
    result = run.train(progress=False)
    assert result.history == expected.history
    other = prograd.load(path, engine=engine).train(progress=False)
    assert other.history["rate"] != expected.history["rate"]
    command = [
        "execute",
        path,
        "-q",
        "--engine",
        engine,
        "--set",
        "patience=2",
        "--set",
        "factor=0.5",
        "--set",
        "stop=7",
    ]
    assert main(command) == 0
    assert run.state_sha256 in capsys.readouterr().out
    assert main(["execute", path, "-q", "--set", "factor=1.5"]) == 2
    assert capsys.readouterr().err == ("runtime: the setting 'factor' is above 0 and below 1, and 1.5 is not\n")


def test_the_text_of_a_program_has_all_of_it():
    program, _ = resumable("file")
    program.setting("p", 3, dtype="int64")
    desc = program.compile(batch=BATCH).desc
    assert from_text(to_text(desc)) == desc
    opened = Program.load(saved(program))
    assert opened.compile().desc.run == desc.run


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (
            lambda: schedules.reduce_on_plateau(0.1, min_lr=1e-5),  # type: ignore[call-arg]
            "reduce_on_plateau: there is no setting 'min_lr'; here it is called min_rate",
        ),
        (
            lambda: schedules.reduce_on_plateau(0.1, factor=2.0),
            "reduce_on_plateau: factor=2.0 is not above 0 and below 1",
        ),
        (lambda: schedules.reduce_on_plateau(0.1, patience=0), "reduce_on_plateau: patience=0 is not from 1 on"),
        (
            lambda: schedules.reduce_on_plateau(0.1, patience=1.5),
            "reduce_on_plateau: patience=1.5 is not a whole number",
        ),
        (
            lambda: schedules.reduce_on_plateau(0.1, mode="auto"),  # type: ignore[arg-type]
            "reduce_on_plateau: mode='auto' is neither 'min' nor 'max'",
        ),
        (
            lambda: network(schedules.reduce_on_plateau(0.1, monitor="acuracy")).compile(batch=BATCH),
            "reduce_on_plateau: monitor='acuracy' is no metric of this program; did you mean 'accuracy'?",
        ),
        (
            lambda: network(schedules.reduce_on_plateau(0.1, monitor="rate")).compile(batch=BATCH),
            "reduce_on_plateau: monitor='rate' does not say whether lower or higher values are better; give mode='min' "
            "or mode='max'",
        ),
        (
            lambda: network(keep_best="loss", min_delta=0.1),
            "training: min_delta is the improvement that stop_after asks for; give stop_after=",
        ),
        (
            lambda: network(best_checkpoints=3),
            "training: best_checkpoints and restore_best need the metric of the best; give keep_best=",
        ),
    ],
)
def test_what_cannot_be_declared_is_one_sentence(build: Any, sentence: str):
    assert re.sub(r"^\S+\.py:\d+: ", "", told((prograd.OpError, prograd.CompileError), build)) == sentence

"""Runs as objects: pickled and copied, in this process and another one, at any position of their training."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import prograd
from prograd import Program, StepEnd, adam, layers, ops
from prograd.callbacks import EarlyStopping
from runtime.errors import UsageError

ENGINES = ["reference", "native"]
RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 4)).astype("float32")
DATA = {"x": X, "y": (X[:, 0] > 0).astype("int64")}


def built() -> Program:
    program = Program("p", seed=1)
    x, y = program.input("x", "float32", ("batch", 4)), program.input("y", "int64", ("batch",))
    scores = layers.dense(layers.dropout(layers.dense(x, "h", 8), 0.2), "o", 2)
    program.minimize(ops.softmax_cross_entropy(scores, y), adam(program.setting("rate", 0.02)))
    half = program.buffer("half", (3,), dtype="bfloat16")
    program.update(half, half)
    program.outputs(scores=scores)
    return program


def run_of(engine: str, **options: object) -> prograd.Run:
    return prograd.Run(built().compile(batch=16), engine=engine, **options)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("copied", [lambda run: pickle.loads(pickle.dumps(run)), copy.deepcopy, copy.copy])
def test_a_copy_of_a_run_trains_on_to_the_same_bits(copied, engine):
    run = run_of(engine, settings={"rate": 0.1})
    events = run.events(data=DATA, epochs=4)
    while not (isinstance(event := next(events), StepEnd) and event.step == 5):
        pass
    events.close()
    other = copied(run)
    assert (other.state_sha256, other.sha256) == (run.state_sha256, run.sha256)
    assert other.settings["rate"] == 0.1
    expected = run.train(data=DATA, epochs=4)
    assert other.position.steps == 5
    found = other.train(data=DATA, epochs=4)
    assert found.history == expected.history
    assert other.state_sha256 == run.state_sha256
    np.testing.assert_array_equal(other.predict(X)["scores"], run.predict(X)["scores"])
    assert run.train(data=DATA, epochs=1).steps == other.train(data=DATA, epochs=1).steps == 3


def test_the_best_states_and_the_result_go_along():
    run = run_of("reference")
    run.train(data=DATA, epochs=3, validation_split=0.5, callbacks=[EarlyStopping()])
    other = pickle.loads(pickle.dumps(run))
    assert other.result.history == run.result.history
    assert other.position.best.keys() == run.position.best.keys() != set()
    assert other.train(data=DATA, steps=2, validation_split=0.5).steps == 2


def test_another_process_needs_no_file(tmp_path: Path):
    prograd.data.write(tmp_path / "rows.safetensors", DATA)
    program = built()
    program.data("rows.safetensors", shuffle=True, remainder="drop")
    program.training(epochs=2)
    program.compile(batch=8).save(tmp_path / "p.pb")
    run = prograd.load(tmp_path / "p.pb", max_memory=1 << 30)
    run.train(epochs=1)
    (tmp_path / "run.pickle").write_bytes(pickle.dumps(run))
    (tmp_path / "p.pb").unlink()
    script = (
        "import pickle, sys\n"
        f"run = pickle.load(open({str(tmp_path / 'run.pickle')!r}, 'rb'))\n"
        "run.train(epochs=2)\n"
        "print(run.position.steps, run.state_sha256)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd="/", capture_output=True, text=True, check=True)
    run.train(epochs=2)
    assert done.stdout.split() == ["10", run.state_sha256]


def test_a_run_that_trains_is_not_pickled():
    run = run_of("reference")
    events = run.events(data=DATA, epochs=4)
    next(events)
    with pytest.raises(UsageError, match="pickle: the run trains already"):
        pickle.dumps(run)

"""Rows that no memory holds, as views have them: each call of the library says so in a sentence, and goes on after."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from subjects.serving import Serving, ask

import prograd
from prograd import Program, adam, layers, ops
from runtime.command_line.ending import error_sentence, exit_code
from runtime.serving import predictor

ROWS = 1 << 41
"""Rows of 64 numbers that take more than the addresses of a process."""

X = np.broadcast_to(np.zeros(64, np.float32), (ROWS, 64))
Y = np.broadcast_to(np.int64(0), (ROWS,))
SMALL = {"x": np.ones((32, 64), np.float32), "y": np.zeros(32, np.int64)}
NEEDS = "there is not enough memory for float32[2199023255552, 64], 512.0 TiB; give fewer rows at a time"


def classifier(engine: str) -> prograd.Run:
    program = Program("c", seed=1)
    x, y = program.input("x", "float32", ("batch", 64)), program.input("y", "int64", ("batch",))
    scores = layers.dense(x, "out", 4)
    loss = ops.softmax_cross_entropy(scores, y)
    program.minimize(loss, adam(0.1))
    program.outputs(scores=scores)
    program.training(epochs=1)
    return prograd.Run(program.compile(batch=32), engine=engine)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_rows_that_no_memory_holds_are_refused_by_every_call_of_a_run(engine: str):
    run = classifier(engine)
    calls = {
        "predict": lambda: run.predict({"x": X}),
        "step": lambda: run.step({"x": X, "y": Y}),
        "evaluate": lambda: run.evaluate({"x": X, "y": Y}),
        "train": lambda: run.train(data={"x": X, "y": Y}, progress=False),
        "events": lambda: list(run.events(data={"x": X, "y": Y})),
    }
    more = [
        lambda: run.train(data=SMALL, validation_data={"x": X, "y": Y}, progress=False),
        lambda: run.train(data=(X, Y), validation_split=0.5, progress=False),
        lambda: run.train(data=(X, Y), fold=(1, 5), progress=False),
    ]
    for name, call in [*calls.items(), *(("train", call) for call in more)]:
        with pytest.raises(prograd.ResourceLimit) as caught:
            call()
        assert str(caught.value) == f"{name}: {NEEDS}"
    run.train(data=SMALL, progress=False)
    assert run.position.steps == 1


def test_packing_and_writing_refuse_columns_that_no_memory_holds(tmp_path: Path):
    path, column = tmp_path / "rows.safetensors", np.broadcast_to(0.5, (1 << 47,))
    for name, call, array in (
        ("write", lambda: prograd.data.write(path, {"x": X}), "float32[2199023255552, 64], 512.0 TiB"),
        ("pack", lambda: prograd.data.pack({"y": column}, path), "int64[140737488355328], 1024.0 TiB"),
    ):  # fmt: skip
        with pytest.raises(prograd.ResourceLimit) as caught:
            call()
        assert str(caught.value) == f"{name}: there is not enough memory for {array}; give fewer rows at a time"
    assert not path.exists()


def test_arrays_beyond_all_addresses_are_refused_alike(tmp_path: Path):
    with pytest.raises(prograd.ResourceLimit) as caught:
        prograd.data.write(tmp_path / "a.safetensors", {"x": np.broadcast_to(np.int8(0), (1 << 62,))})
    assert str(caught.value) == "write: an array has more bytes than addresses; give fewer rows"


def test_commands_name_the_array_that_has_no_memory():
    with pytest.raises(MemoryError) as caught:
        np.empty((1 << 41, 64), np.float32)
    code = exit_code(caught.value)
    assert (code, error_sentence(caught.value, code)) == (
        6,
        "there is not enough memory for float32[2199023255552, 64], 512.0 TiB",
    )
    assert error_sentence(MemoryError(), 6) == "there is not enough memory"


def test_a_request_whose_rows_have_no_memory_is_answered_503(monkeypatch: pytest.MonkeyPatch):
    def no_memory(*_: object, **__: object) -> object:
        return np.empty((1 << 41, 64), np.float32)

    run = classifier("reference")
    monkeypatch.setattr(predictor.Predictor, "_fetched", no_memory)
    with Serving(run) as serving:
        status, _, body = ask(serving.port, ('{"x": [[' + ", ".join(["0"] * 64) + "]]}").encode())
    assert (status, serving.faults) == (503, [])
    assert b"there is not enough memory for float32[2199023255552, 64], 512.0 TiB" in body


def test_estimators_refuse_rows_that_no_memory_holds():
    pytest.importorskip("sklearn")
    from prograd.sklearn import Classifier, Regressor

    for kind in (Classifier, Regressor):
        new = kind(max_iter=1)
        fitted = kind(max_iter=1).fit(SMALL["x"] * np.arange(32)[:, None], np.arange(32) % 2)
        for call, arguments in ((new.fit, (X, Y)), (fitted.partial_fit, (X, Y)), (fitted.predict, (X,))):
            with pytest.raises(prograd.ResourceLimit, match=r"memory for float64\[2199023255552, 64\], 1024.0 TiB"):
                call(*arguments)

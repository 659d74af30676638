"""Rows that are no mapping of arrays by feed: one sentence, whoever is given them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from subjects.commands import told

import prograd
from prograd import Program, Run, layers, ops, sgd

X, Y = np.ones((32, 64), np.float32), np.ones((32, 4), np.float32)
HOW = "name the feed of each array, as in {'x': x, 'label': label}"


@pytest.fixture(params=["reference", "native"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    program = Program(seed=1)
    x, y = program.input("x", "float32", ("batch", 64)), program.input("y", "float32", ("batch", 4))
    out = layers.dense(x, "d", 4)
    program.minimize(ops.squared_error(out, y), sgd(0.1))
    program.outputs(out=out + y)
    program.compile(batch=32).save(tmp_path / "p.pb", force=True)
    return prograd.load(tmp_path / "p.pb", engine=request.param)


CALLS: dict[str, Callable[[Run, object], object]] = {
    "step": lambda run, rows: run.step(rows),  # type: ignore[arg-type]
    "train": lambda run, rows: list(run.events(data=rows, steps=1)),
    "evaluate": lambda run, rows: run.evaluate(rows),  # type: ignore[arg-type]
    "predict": lambda run, rows: run.predict(rows),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("key", [0, None, ("x", 1), np.int64(3), b"x"])
def test_a_mapping_whose_keys_are_no_names(call: Callable[[Run, object], object], key: object, run: Run):
    assert told(prograd.UsageError, lambda: call(run, {key: X, "y": Y})) == f"the rows have the key {key!r}; {HOW}"


@pytest.mark.parametrize("name", ["step", "train", "evaluate"])
@pytest.mark.parametrize("rows", [X, [X, Y]], ids=["array", "list"])
def test_arrays_without_names(name: str, rows: object, run: Run):
    with pytest.raises(prograd.UsageError) as caught:
        CALLS[name](run, rows)
    assert str(caught.value) == f"the rows are of type {type(rows).__name__}; {HOW}"


@pytest.mark.parametrize("name", ["step", "evaluate"])
@pytest.mark.parametrize("rows", [[[1.0, 2.0]], [], 3, 0.5, {1, 2}, True], ids=repr)
def test_numbers_without_names(name: str, rows: object, run: Run):
    with pytest.raises(prograd.UsageError) as caught:
        CALLS[name](run, rows)
    assert str(caught.value) == f"the rows are of type {type(rows).__name__}; {HOW}"


@pytest.mark.parametrize("rows", [X, [X, Y], [[1.0]], 3], ids=["array", "arrays", "list", "number"])
def test_predictions_of_two_feeds_ask_for_their_names(rows: object, run: Run):
    with pytest.raises(prograd.DataError) as caught:
        run.predict(rows)
    assert str(caught.value) == "entry 'predict' has the feeds x, y; give an array by name"

"""Frames whose columns make the array of one feed: another order than that of the training is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from prograd import DataError, Program, Run, adam, layers, ops

SEED = np.random.default_rng(3)
X = SEED.standard_normal((96, 64)).astype("f")
Y = (X[:, 0] > 0).astype("int64")
NAMES = [f"c{number}" for number in range(64)]
OTHER = (
    "feed 'x': column 1 of the frame is 'c63', and 'c0' was trained on there; "
    "give the columns that the run was trained with, in order"
)


def trained(engine: str, frame: object, *, by_name: bool = False) -> Run:
    program = Program("p", seed=1)
    x, y = program.input("x", "float32", ("batch", 64)), program.input("y", "int64", ("batch",))
    scores = layers.dense(x, "o", 2)
    program.minimize(ops.softmax_cross_entropy(scores, y), adam(0.1))
    program.entry("evaluate", loss=ops.softmax_cross_entropy(scores, y))
    program.outputs(scores=scores)
    run = Run(program.compile(batch=32), engine=engine)
    run.train(data={"x": frame, "y": Y} if by_name else (frame, Y), epochs=1)
    return run


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("kind", [pd.DataFrame, lambda x, columns: pl.DataFrame(x, schema=columns)])
@pytest.mark.parametrize("by_name", [False, True])
def test_a_frame_with_its_columns_in_another_order_is_refused(engine: str, kind: object, by_name: bool):
    frame = kind(X, columns=NAMES)  # type: ignore[operator]
    other = frame[NAMES[::-1]]
    run = trained(engine, frame, by_name=by_name)
    calls = [
        lambda: run.predict(other),
        lambda: run.predict({"x": other}),
        lambda: run.train(data=(other, Y), epochs=1),
        lambda: run.train(data=(frame, Y), validation_data=(other, Y), epochs=1),
        lambda: run.evaluate((other, Y)),
    ]
    for call in calls:
        with pytest.raises(DataError) as caught:
            call()
        assert str(caught.value) == OTHER
    np.testing.assert_array_equal(run.predict(frame)["scores"], run.predict(X)["scores"])


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (NAMES[:-1], "the frame has 63 columns, and 'c63' was trained on there"),
        ([*NAMES, "extra"], "column 65 of the frame is 'extra', and 64 columns were trained on"),
    ],
)
def test_a_frame_with_more_or_fewer_columns_is_refused_by_name(names: list[str], said: str):
    run = trained("reference", pd.DataFrame(X, columns=NAMES))
    frame = pd.DataFrame(np.zeros((3, len(names)), "f"), columns=names)
    with pytest.raises(DataError) as caught:
        run.predict(frame)
    assert str(caught.value) == f"feed 'x': {said}; give the columns that the run was trained with, in order"


def test_arrays_and_numbered_columns_are_not_compared():
    run = trained("reference", pd.DataFrame(X))
    assert run.predict(pd.DataFrame(X, columns=NAMES))["scores"].shape == (96, 2)
    run = trained("reference", X)
    assert run.predict(pd.DataFrame(X, columns=NAMES[::-1]))["scores"].shape == (96, 2)

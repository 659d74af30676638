"""Mistakes with estimators, loops of one's own, windows and metrics: each is answered by one sentence that helps."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import prograd
from prograd import Program, Run, adam, data, layers, metrics, ops
from prograd.sklearn import Classifier, Regressor

X = np.random.default_rng(0).normal(size=(40, 4))
Y = (X[:, 0] > 0).astype(int)
FRAME = pd.DataFrame({"a": [1.0, 2, 3, 4] * 5, "t": ["x", "y"] * 10})
SERIES = {"a": [1.0, 2.0] * 20}
STATES, ACTIONS = np.zeros((8, 4), "f4"), np.zeros(8, "i8")


def agent() -> Program:
    program = Program("agent", seed=1)
    state, action = program.input("state", "float32", ("batch", 4)), program.input("action", "int64", ("batch",))
    scores = layers.dense(state, "d", 2)
    program.minimize(ops.softmax_cross_entropy(scores, action), adam(0.01))
    program.outputs(chance=ops.softmax(scores))
    return program


def step(entry: str = "train", **options: Any) -> Any:
    return Run(agent().compile(batch=8), engine="reference").stepper(entry, **options)


def classifier(**options: Any) -> Any:
    return Classifier(max_iter=1, engine="reference", **options)


def packed(**options: Any) -> None:
    data.pack(SERIES, "rows.safetensors", **options)


own: Any = prograd
of_metrics: Any = metrics

MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "a parameter by another name": (
        lambda: Classifier(epochs=3),  # pyright: ignore[reportCallIssue]: the mistake
        "Classifier has no parameter 'epochs'; write max_iter",
    ),
    "another optimizer": (
        lambda: Classifier(solver="sgd"),  # pyright: ignore[reportCallIssue]: the mistake
        "Classifier has no parameter 'solver': it trains by AdamW, and a program= by any other",
    ),
    "a slip of a parameter": (
        lambda: Regressor(quantile=(0.5,)),  # pyright: ignore[reportCallIssue]: the mistake
        "Regressor has no parameter 'quantile'; did you mean 'quantiles'?",
    ),
    "texts for a regressor": (
        lambda: Regressor(max_iter=1).fit(X, ["a"] * 40),
        "y has texts, and a Regressor predicts numbers; a Classifier predicts classes of texts",
    ),
    "widths as text": (
        lambda: classifier(hidden_layer_sizes="100").fit(X, Y),
        "hidden_layer_sizes='100' is not a whole number from 1 on",
    ),
    "a slip of balanced": (
        lambda: classifier(class_weight="balance").fit(X, Y),
        "class_weight='balance' is not 'balanced', a mapping, or a weight for each class",
    ),
    "percents for quantiles": (
        lambda: Regressor(quantiles=(10, 90), max_iter=1).fit(X, X[:, 0]),
        "quantiles=(10, 90) are not numbers between 0 and 1, each above the one before",
    ),
    "a program in place of a function": (
        lambda: classifier(program=agent()).fit(X, Y),
        "program is a Program, and not a function of the numbers of features and outputs",
    ),
    "a program with other inputs": (
        lambda: classifier(program=lambda features, classes: agent()).fit(X, Y),
        "program: the input 'state' is none of x, y and weight, which an estimator feeds",
    ),
    "a callback by itself": (
        lambda: classifier(callbacks=len).fit(X, Y),
        "callbacks=<built-in function len> is no list; give callbacks=[…]",
    ),
    "a column that is left out": (
        lambda: classifier().fit(FRAME, [0, 1] * 10).predict(FRAME[["a"]]),
        "X has no column 't'; give a frame with the columns of the first rows",
    ),
    "all rows held out": (
        lambda: classifier(early_stopping=True, validation_fraction=2.0).fit(X, Y),
        "validation_fraction=2.0 is not below 1",
    ),
    "a slip of an entry": (lambda: step("trian"), "there is no entry 'trian'; did you mean 'train'?"),
    "a slip of a fetch": (
        lambda: step(fetch="los"),
        "entry 'train' has no fetch and no tensor 'los'; did you mean 'loss'?",
    ),
    "a feed that is left out": (
        lambda: step()(STATES),
        "entry 'train' reads the feed 'action': int64[rows], which is not given; give an array for each feed, or "
        "declare rows by program.data",
    ),
    "a slip of a feed": (
        lambda: step()(state=STATES, actions=ACTIONS),
        "entry 'train' has no feed 'actions'; did you mean 'action'?",
    ),
    "a column too few": (
        lambda: step()(STATES[:, :3], ACTIONS),
        "entry 'train': the feed 'state' is float32[rows, 4], the array given is float32[8, 3]",
    ),
    "rows that differ": (
        lambda: step()(STATES, ACTIONS[:4]),
        "the feeds differ in their number of rows: 'state' has 8, 'action' 4",
    ),
    "an array too many": (
        lambda: step("predict")(STATES, ACTIONS),
        "entry 'predict' has 1 feeds, state, and 2 arrays are given",
    ),
    "an optimizer by its name": (
        lambda: own.lazy("adam"),
        "lazy: 'adam' is not an optimizer; call the function, as adam(0.001)",
    ),
    "an optimizer that is not called": (
        lambda: own.look_ahead(adam),
        "look_ahead: adam is not an optimizer; call the function, as adam(0.001)",
    ),
    "a rate for an optimizer": (lambda: own.lazy(0.1), "lazy: 0.1 is not an optimizer; use one as sgd(0.1)"),
    "SparseAdam": (
        lambda: own.SparseAdam,
        "there is no 'SparseAdam' in prograd; write prograd.lazy(prograd.adam(0.001))",
    ),
    "a metric by another name": (
        lambda: of_metrics.pr_auc,
        "prograd.metrics has no 'pr_auc'; write metrics.average_precision",
    ),
    "an error by its letters": (
        lambda: of_metrics.MAE,
        "prograd.metrics has no 'MAE'; write metrics.mean_absolute_error",
    ),
    "an indicator": (lambda: packed(indicator=["a"]), "pack: there is no option 'indicator'; did you mean 'indicate'?"),
    "a horizon of 0": (
        lambda: packed(window=4, target="a", ahead=0),
        "pack: ahead=0: give it as ahead=1, or ahead=[1, 24]",
    ),
    "a horizon of nothing": (
        lambda: packed(window=4, ahead=[1, 3]),
        "ahead: how far the targets of windows are says nothing without them; give target too",
    ),
    "a horizon without windows": (
        lambda: packed(target="a"),
        "target: the value behind each window says nothing without them; give window too",
    ),
    "one replacement for all": (
        lambda: packed(missing="mean"),
        'pack: missing=\'mean\': give it as missing={"age": "mean", "city": "other"}',
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_by_a_sentence(mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    call, sentence = MISTAKES[mistake]
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of several types, and the sentence is compared
        call()
    assert str(caught.value) == sentence
    assert not any(tmp_path.iterdir())


def test_an_estimator_shows_its_parameters():
    import inspect

    assert list(inspect.signature(Classifier).parameters)[:3] == ["hidden_layer_sizes", "activation", "dropout"]
    assert "quantiles" in inspect.signature(Regressor).parameters

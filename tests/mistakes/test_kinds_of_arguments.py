"""Arguments of a kind that a function does not take: one sentence of ours, short whatever the value is."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import prograd
from compiler import CompileError, Program, adam, from_onnx, ops, sgd
from compiler.frontends.account import Account
from prograd import layers
from prograd_proto import ProgramError
from prograd_proto.printable import MAX_ERROR_CHARACTERS, shown
from runtime import UsageError

LARGE = np.arange(900.0).reshape(30, 30)
ROWS = {"x": np.zeros((8, 3), np.float32)}


def network(**choices: Any) -> Program:
    program = Program("n", seed=1)
    x = program.input("x", "float32", ("batch", 3))
    loss = ops.mean(layers.dense(x, "h", 4))
    program.minimize(loss, sgd(0.1), **choices)
    return program


def run(**options: Any) -> Any:
    return prograd.Run(network().compile(batch=4), engine="reference", **options)


def saved(**options: Any) -> Any:
    made = run()
    made.save("m.safetensors")
    return made.load("m.safetensors", **options)


W = Program("w").parameter("w", (3,))
NOT_A_PAIR = "is not a list of pairs, as [([w, b], adam(1e-4))] is"

CASES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a seed in words": (lambda: run(seed="abc"), UsageError, "seed='abc' is not a whole number"),
    "threads in words": (lambda: run(threads="two"), UsageError, "threads='two' is not a whole number"),
    "rows in memory": (
        lambda: run(data=[1]),
        UsageError,
        "data=[1] is not a path; arrays of rows are given to train, as in run.train(data={...})",
    ),
    "a folder": (lambda: run(folder=3), UsageError, "folder=3 is not a path"),
    "a list of settings": (
        lambda: run(settings=["rate"]),
        UsageError,
        "settings=['rate'] is not a mapping of names to values, as {'rate': 0.1} is",
    ),
    "an unknown engine": (
        lambda: prograd.Run(network().compile(batch=4), engine=1),  # type: ignore[arg-type]
        UsageError,
        "there is no engine 1",
    ),
    "an entry by its number": (lambda: run().step(ROWS, entry=1), UsageError, "there is no entry 1"),
    "names by a list": (
        lambda: saved(rename=["a"]),
        UsageError,
        "rename=['a'] is not a mapping of names to names, as {'old.': 'new.'} is",
    ),
    "a pattern by a number": (
        lambda: saved(only=3),
        UsageError,
        "only=3 is no pattern of names and no list of patterns, as 'trunk.*' is",
    ),
    "groups as PyTorch has them": (
        lambda: network(groups=[{"params": [], "lr": 0.1}]),
        CompileError,
        f"minimize: groups=[{{'params': [], 'lr': 0.1}}] {NOT_A_PAIR}",
    ),
    "one parameter as a group": (
        lambda: network(groups=[(W, adam(1e-3))]),
        CompileError,
        NOT_A_PAIR,
    ),
    "no list without gradient": (lambda: network(no_grad=3), CompileError, "no_grad=3 is no list of tensors or names"),
    "no list of parameters": (
        lambda: network(parameters=3),
        CompileError,
        "minimize: parameters=3 is no list of parameters",
    ),
    "memory of an import": (
        lambda: Account("200MiB"),  # type: ignore[arg-type]
        CompileError,
        "max_memory='200MiB' is not a whole number of bytes",
    ),
    "time of an import": (
        lambda: Account(None, "1 s"),  # type: ignore[arg-type]
        CompileError,
        "max_time='1 s' is not a number of seconds",
    ),
}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("call", "kind", "sentence"), CASES.values(), ids=CASES)
def test_an_argument_of_another_kind_is_one_sentence(call: Callable[[], Any], kind: type[Exception], sentence: str):
    with pytest.raises(kind) as caught:
        call()
    assert sentence in str(caught.value)


def test_a_large_value_leaves_the_sentence_readable():
    pytest.importorskip("onnx")
    for call in (lambda: from_onnx(LARGE), lambda: run(seed=LARGE), lambda: run(data=LARGE.tolist())):
        with pytest.raises((ProgramError, UsageError)) as caught:
            call()
        told = str(caught.value)
        assert len(told) <= MAX_ERROR_CHARACTERS
        assert "\n" not in told
        assert "..." in told
    assert shown(LARGE[:2, :15]).endswith(
        "13., 14.], [30., 31., 32., 33., 34., 35., 36., 37., 38., 39., 40., 41., 42., 43., 44.]])"
    )


@pytest.mark.parametrize(
    ("kind", "options", "sentence"),
    [
        ("Classifier", {"hidden_layer_sizes": 0.5}, "hidden_layer_sizes=0.5 is not a whole number from 1 on"),
        ("Classifier", {"activation": ops.relu}, "activation=ops.relu(x) -> y is none of relu, "),
        ("Classifier", {"activation": ["relu"]}, "activation=['relu'] is none of relu, "),
        ("Classifier", {"validation_fraction": "0.1"}, "validation_fraction='0.1' is not a number above 0"),
        ("Classifier", {"class_weight": 3}, "class_weight=3 is not 'balanced', a mapping, or a weight for each class"),
        ("Regressor", {"quantiles": [["low"]]}, "quantiles=[['low']] are not numbers between 0 and 1"),
        ("Regressor", {"tol": LARGE}, "tol=array([[  0.,   1.,"),
    ],
)
def test_a_parameter_of_an_estimator_of_another_kind_is_one_sentence(kind: str, options: Any, sentence: str):
    estimators = pytest.importorskip("prograd.sklearn", reason="scikit-learn is an extra")
    with pytest.raises(ValueError, match=r"^\w+=") as caught:
        getattr(estimators, kind)(**options).fit(np.zeros((8, 3)), [0, 1] * 4)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_folder_of_a_model_is_one_sentence():
    with pytest.raises(CompileError, match=r"^from_lm: folder=3 is not a path$"):
        prograd.from_lm(3)  # type: ignore[arg-type]

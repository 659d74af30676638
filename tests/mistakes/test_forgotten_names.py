"""Names that a program forgot: keys of inputs, rows of splits, the size of an embedding; and options of other tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import prograd
from prograd import Program, layers, ops, sgd
from runtime.__main__ import main


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = {"w": np.zeros(8, np.float32), "y": np.zeros(8, np.int64), "train": np.arange(8)}
    save_file(rows, "d.safetensors")


def network(**data: object) -> Program:
    program = Program("net", seed=1)
    x, label = program.input("x", "float32", ("b",)), program.input("label", "int64", ("b",))
    program.minimize(ops.softmax_cross_entropy(layers.dense(x[:, None], "o", 2), label), sgd(0.1))
    program.data("d.safetensors", shuffle=False, **data)
    return program


def no_columns() -> object:
    program = network()
    program.training(epochs=1)
    return program.compile(b=2)


def half_of_the_columns() -> object:
    program = network(columns={"x": "w"})
    program.training(epochs=1)
    return prograd.Run(program.compile(b=2)).train(progress=False)


def no_splits() -> object:
    program = network(columns={"x": "w", "label": "y"})
    program.training(epochs=1, evaluate="test")
    return program.compile(b=2)


def a_split_that_is_not_named() -> object:
    program = network(columns={"x": "w", "label": "y"})
    program.training(epochs=1)
    return prograd.Run(program.compile(b=2)).evaluate("test")


def summary_of_a_run() -> object:
    program = network(columns={"x": "w", "label": "y"})
    return prograd.Run(program.compile(b=2)).summary()


@pytest.mark.parametrize(
    ("forgotten", "said"),
    [
        (no_columns, "data: d.safetensors: there is no key 'x' in the file; there are train, y, w; name the key of the "
         "input 'x' by columns={'x': 'KEY'}"),
        (half_of_the_columns, "data: d.safetensors: there is no key 'label' in the file; there are train, y, w; name "
         "the key of the input 'label' by columns={'label': 'KEY'}"),
        (no_splits, "training: evaluate='test' is no split of this program; name its rows by program.data(…, "
         "splits={'test': 'KEY'})"),
        (a_split_that_is_not_named, "the data has no split 'test'; its rows are named by program.data(…, "
         "splits={'test': 'KEY'})"),
        (summary_of_a_run, "a Run has no 'summary'; write prograd.Program.load(path).summary(), or compiler summary "
         "program.pb"),
    ],
)  # fmt: skip
def test_a_forgotten_name_is_told_with_the_argument_that_gives_it(forgotten: Callable[[], object], said: str):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the sentence is compared
        forgotten()
    found = str(caught.value)
    assert found[found.find(said[:8]) :] == said


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_an_embedding_that_is_too_small_is_told_with_its_count(engine: str):
    program = Program("words", seed=1)
    words, label = program.input("words", "int64", ("b", 4)), program.input("label", "int64", ("b",))
    scores = layers.dense(ops.mean(layers.embedding(words, "words", count=32, size=64), axis=1), "o", 2)
    program.minimize(ops.softmax_cross_entropy(scores, label), sgd(0.1))
    program.outputs(scores=scores)
    run = prograd.Run(program.compile(b=4), engine=engine)
    large, label = np.full((4, 4), 37), np.zeros(4, np.int64)
    for call in (
        lambda: run.train(data={"words": large, "label": label}, progress=False),
        lambda: run.predict({"words": large}),
    ):
        with pytest.raises(prograd.ExecutionError) as caught:
            call()
        assert str(caught.value).endswith(
            "index 37 is out of range: there are 32 places, from 0; row 0 of the feed 'words' has it; 'words.table' "
            "has a row for each number, so it takes count=38 or more"
        )
    with pytest.raises(prograd.ExecutionError) as caught:
        run.predict({"words": -large})
    assert str(caught.value).endswith("row 0 of the feed 'words' has it")  # no count helps


@pytest.mark.parametrize("verb", ["execute", "sweep", "serve"])
@pytest.mark.parametrize("flag", ["--rate", "--lr", "--learning-rate"])
def test_a_learning_rate_is_a_setting(verb: str, flag: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main([verb, "net.pb", flag, "1e-3"])
    assert capsys.readouterr().err == (
        f"runtime: there is no option {flag!r}; write --set rate=NUMBER for a setting of the program that is called "
        f"rate; see runtime {verb} --help\n"
    )


def test_many_different_texts_are_no_classes_in_silence(caplog: pytest.LogCaptureFixture):
    texts = [f"this is sentence {number}" for number in range(60)]
    prograd.data.pack({"text": texts}, "t.safetensors")
    assert caplog.messages == [
        "'text' has 60 different texts in 60 rows, which become as many classes; leave it out by drop=['text'], keep "
        "it as text by text={'text': 100}, or as classes by classes=['text']"
    ]
    caplog.clear()
    prograd.data.pack({"text": texts}, "t.safetensors", classes=["text"], force=True)
    prograd.data.pack({"text": texts * 2}, "t.safetensors", force=True)
    prograd.data.pack({"text": texts[:50]}, "t.safetensors", force=True)
    assert caplog.messages == []

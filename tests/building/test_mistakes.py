"""Forty mistakes of a first day: each is answered by one sentence that says what to do."""

# ruff: noqa: E501 - sentences are tables to be read

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from subjects.commands import ended, told

import prograd
from compiler.__main__ import main as compiler
from prograd import Program, adam, layers, metrics, ops
from runtime.__main__ import main as runtime

X, Y = np.ones((64, 64), np.float32), np.zeros(64, np.int64)
DENSE = "dense(x, name, size, *, bias, initial, bias_decay_scale)"


class Given:
    """A program that is being built."""

    def __init__(self) -> None:
        self.p: Any = Program("mistakes", seed=1)
        self.x: Any = self.p.input("x", "float32", ("batch", 64))
        self.y: Any = self.p.input("y", "int64", ("batch",))

    def whole(self) -> Any:
        logits = layers.dense(self.x, "d", 16)
        self.p.minimize(ops.softmax_cross_entropy(logits, self.y), adam(0.01))
        self.p.metrics(accuracy=metrics.accuracy(logits, self.y))
        self.p.outputs(logits=logits + ops.cast(ops.reshape(self.y, shape=("batch", 1)), dtype="float32"))
        return self.p


lay: Any = layers
top: Any = prograd

# fmt: off
BUILDING: list[tuple[Callable[[Given], object], str]] = [
    (lambda g: top.Sequential, "there is no 'Sequential' in prograd; write prograd.Program, and one layer after another: x = ops.relu(layers.dense(x, 'hidden', 32))"),
    (lambda g: top.Module, "there is no 'Module' in prograd; write prograd.Program, and layers as functions: x = layers.dense(x, 'hidden', 32)"),
    (lambda g: top.Tensor, "there is no 'Tensor' in prograd; write program.input('x', 'float32', ('batch', 4)), or program.constant(1.0)"),
    (lambda g: top.nn, "there is no 'nn' in prograd; write prograd.layers for what has parameters, and prograd.ops for all else"),
    (lambda g: top.optim, "there is no 'optim' in prograd; write an optimizer itself, as prograd.adam or prograd.sgd"),
    (lambda g: top.Adam, "there is no 'Adam' in prograd; did you mean 'adam'?"),
    (lambda g: top.Linear, "there is no 'Linear' in prograd; write layers.dense"),
    (lambda g: top.Dense, "there is no 'Dense' in prograd; write layers.dense"),
    (lambda g: lay.Dense, "there is no layer 'Dense'; write layers.dense"),
    (lambda g: lay.dense(g.x, "d", units=3), "dense: there is no argument 'units'; here it is called size"),
    (lambda g: lay.dense(g.x, "d", out_features=3), "dense: there is no argument 'out_features'; here it is called size"),
    (lambda g: lay.dense(g.x, "d", 3, activation="relu"), "dense: there is no argument 'activation'; write the operator around the layer, as in ops.relu(layers.dense(x, 'hidden', 32))"),
    (lambda g: lay.dense(g.x, "d", 3, in_features=64), "dense: there is no argument 'in_features'; leave it out: it is the last extent of x"),
    (lambda g: lay.dense(g.x, "d", 3, biass=True), "dense: there is no argument 'biass'; did you mean 'bias'? There are x, name, size, bias, initial, bias_decay_scale"),
    (lambda g: lay.dense(g.x, "d"), f"dense: missing a required argument: 'size'; its arguments are {DENSE}"),
    (lambda g: lay.dense(g.x, "d", 3, 4), f"dense: too many positional arguments; its arguments are {DENSE}"),
    (lambda g: lay.dense("d", g.x, 3), "dense: the tensor comes first and then the name, as in layers.dense(x, 'hidden', 32)"),
    (lambda g: lay.dense(X, "d", 3), "dense 'd': x is a ndarray and not a tensor of a program; feed it as an input"),
    (lambda g: lay.conv(g.x, "c", 3, kernel_size=3), "conv: there is no argument 'kernel_size'; here it is called window"),
    (lambda g: lay.lstm(g.x, "c", hidden_size=3), "lstm: there is no argument 'hidden_size'; here it is called size"),
    (lambda g: lay.layer_norm(g.x, "n", eps=1e-3), "layer_norm: there is no argument 'eps'; here it is called epsilon"),
    (lambda g: g.p.minimize(adam(0.1), ops.mean(g.x)), "minimize: <Optimizer adam: beta1=0.9, beta2=0.999, epsilon=1e-08, decay=0.0> is not a tensor of a program"),
    (
        lambda g: g.p.minimize(ops.mean(g.x), "Adam"),
        "minimize: 'Adam' is not an optimizer; call the function, as adam(0.001)",
    ),
    (
        lambda g: g.p.minimize(ops.mean(g.x), adam),
        "minimize: adam is not an optimizer; call the function, as adam(0.001)",
    ),
    (
        lambda g: g.p.minimize(ops.mean(g.x), "qwertz"),
        "minimize: 'qwertz' is not an optimizer; use one as sgd(0.1); there are adadelta, adagrad, adam, adamax, adamw, "
        "lion, momentum, nadam, nesterov, radam, rmsprop, sgd, adafactor, lamb, lars",
    ),
    (lambda g: adam(lr=0.1), "adam: there is no setting 'lr'; here it is called rate"),  # pyright: ignore
    (lambda g: g.p.metrics(accuracy="accuracy"), "metric 'accuracy': 'accuracy' is neither a tensor of a program nor a metric"),
    (lambda g: g.p.update("w", g.x), "update: 'w' is not a tensor of a program; program.state('w') gives that of a name"),
    (lambda g: g.whole().compile(32), "compile: 32 is given without the symbol that it binds; write batch=32"),
    (lambda g: g.whole().compile(), "entry 'train': the symbol 'batch' has no size; bind it, as in batch=32"),
    (lambda g: g.whole().compile(batch_size=32), "there is no symbol 'batch_size' in this program; did you mean 'batch'?"),
    (lambda g: g.whole().fit(), "a Program has no 'fit'; write prograd.Run(program.compile(batch=32)).train()"),
    (lambda g: top.load(g.p), "load: the path of a file is text or a Path, not Program; a Program runs as prograd.Run(program.compile(batch=32))"),
    (lambda g: top.load(X), "load: the path of a file is text or a Path, not ndarray"),
    (lambda g: top.load("none.pb"), "none.pb: no such file"),
]

RUNNING: list[tuple[Callable[[Any], object], str]] = [
    (lambda run: run.fit, "a Run has no 'fit'; write run.train(data=(x, y))"),
    (lambda run: run.save("s.pt"), "s.pt: states are written as .safetensors files; write s.safetensors"),
    (lambda run: run.save(3), "save: the path of a file is text or a Path, not int"),
    (lambda run: run.resume(None), "resume: the path of a file is text or a Path, not NoneType"),
    (lambda run: run.train(data={"x": X}), "entry 'train' reads the feed 'y': int64[rows], which is not given; give an array for each feed, or declare rows by program.data"),
    (lambda run: run.train(data=X), "the rows are of type ndarray; name the feed of each array, as in {'x': x, 'label': label}"),
    (lambda run: run.train(data={"x": X, "y": Y[:3]}), "the feeds differ in their number of rows: 'x' has 64, 'y' 3"),
    (lambda run: run.train(data={"x": "rows.csv", "y": Y}), "entry 'train': the feed 'x' is float32[rows, 64], not text; give numbers"),
    (lambda run: run.train(data={"x": None, "y": Y}), "entry 'train': the feed 'x' is float32[rows, 64], not NoneType; give an array"),
    (lambda run: run.train(data={"x": X[:, :3], "y": Y}), "entry 'train': the feed 'x' is float32[rows, 64], the array given is float32[64, 3]"),
    (lambda run: run.train(data={"x": X, "y": Y}, epochs=0), "epochs=0: it starts at 1"),
    (lambda run: run.predict({"x": X, "y": Y}, entry="predct"), "there is no entry 'predct'; did you mean 'predict'?"),
    (lambda run: run.step({"x": X, "y": Y}), "entry 'train' takes 32 rows a step, and 64 are given"),
]

COMMANDS: list[tuple[str, int, str]] = [
    ("runtime execute none.pb", 3, "none.pb: no such file"),
    ("runtime execute x.npy", 3, "x.npy: this is not a prograd program, or it is damaged or cut short"),
    ("runtime execute p.pb --split test", 4, "entry 'train' reads the feed 'x': float32[rows, 64], which is not given; give an array for each feed, or declare rows by program.data"),
    ("runtime execute p.pb --feed x=x.npy", 2, "--feed x=x.npy: this is neither @file.npy nor a JSON value"),
    ("runtime execute p.pb --feed x=@none.npy", 4, "none.npy: no such file"),
    ("runtime execute p.pb --load x.npy --entry predict", 4, None),
    ("runtime execute p.pb --entry trian", 2, "there is no entry 'trian'; did you mean 'train'?"),
    ("runtime execute p.pb --save s.pt", 2, "s.pt: states are written as .safetensors files; write s.safetensors"),
    ("runtime execute p.pb --threads 5000", 2, None),
    ("runtime plot p.pb -o a.svg", 2, "p.pb: metrics are drawn from .jsonl and .csv files, tables of metrics from .npy files"),
    ("compiler compile p.pb --bind batch", 2, "--bind batch: write symbol=size, as in batch=64"),
    ("compiler compile p.pb -o q.onnx", 2, "q.onnx: programs are written as .pb files; write q.pb"),
    ("compiler draw p.pb -o q.gif", 2, "-o q.gif: the name ends in none of .html, .svg and .png"),
]
# fmt: on


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    Given().whole().compile(batch=32).save("p.pb", force=True)
    return tmp_path


@pytest.mark.parametrize(("mistake", "sentence"), BUILDING)
def test_a_mistake_while_building(mistake: Callable[[Given], object], sentence: str, folder: Path):
    expected = (prograd.OpError, prograd.ProgramError, prograd.UsageError, AttributeError)
    with pytest.raises(expected) as caught:
        mistake(Given())
    said = str(caught.value)
    assert (said.partition(": ")[2] if said.startswith("test_mistakes.py:") else said) == sentence


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize(("mistake", "sentence"), RUNNING)
def test_a_mistake_while_running(mistake: Callable[[Any], object], sentence: str, engine: str, folder: Path):
    run = prograd.load("p.pb", engine=engine)  # type: ignore[arg-type]
    assert told((prograd.ExecutionError, AttributeError), lambda: mistake(run)) == sentence


@pytest.mark.parametrize(("options", "sentence"), [
    ({"engine": "gpu"}, "there is no engine 'gpu'; the engines are reference, native, native.amx_int8, native.amx, native.avx512_bf16, native.avx512_vnni, native.avx512, native.avx_vnni, native.avx2, native.sse2, native.neon_dotprod, native.neon"),
    ({"threads": "2"}, "threads='2' is not a whole number"),
    ({"max_memory": "1GB"}, "max_memory='1GB' is not a whole number"),
])  # fmt: skip
def test_a_mistake_while_loading(options: dict[str, Any], sentence: str, folder: Path):
    assert told(prograd.UsageError, lambda: prograd.load("p.pb", **options)) == sentence


@pytest.mark.parametrize(("command", "code", "sentence"), COMMANDS)
def test_a_mistake_on_the_command_line(command: str, code: int, sentence: str | None, folder: Path, capsys):
    name, *words = command.split()
    found, out, err = ended(capsys, {"runtime": runtime, "compiler": compiler}[name], *words)
    assert (found, out) == (code, "")
    assert err.startswith(f"{name}: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert sentence is None or err == f"{name}: {sentence}\n"


def test_compile_without_a_file_says_that_nothing_was_written(folder: Path, capsys):
    assert compiler(["compile", "p.pb"]) == 0
    assert capsys.readouterr().err == "note: nothing was written; -o FILE writes the program\n"

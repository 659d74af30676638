"""Every argument of the library's functions, given values of other kinds: each ends in a sentence, or is taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, isgenerator, signature
from typing import Any

import numpy as np
import pytest

import prograd
from compiler import ops
from prograd import layers
from runtime import ExecutionError

VALUES = (3, 2.5, None, "zz", ["h*"], (1, 2), {"a": 1}, np.ones(3), object(), b"x", True, np.nan, set[int]())
ROWS = np.ones((32, 64), np.float32), np.ones(32, np.int64)

Call = tuple[tuple[Any, ...], dict[str, Any], Callable[..., Any]]
"""Arguments by position and by name, and the function that takes them."""


class Network:
    """A program that may be minimized, with its tensors."""

    def __init__(self) -> None:
        self.program = prograd.Program("t")
        self.x = self.program.input("x", "float32", ("n", 64))
        self.y = self.program.input("y", "int64", ("n",))
        self.h = layers.dense(self.x, "h", 8)
        self.loss = ops.softmax_cross_entropy(self.h, self.y)

    def trained(self) -> prograd.Program:
        self.program.minimize(self.loss, prograd.sgd(0.1))
        self.program.outputs(h=self.h)
        return self.program


def defaults(function: Callable[..., Any]) -> dict[str, Any]:
    given = signature(function).parameters.values()
    return {p.name: p.default for p in given if p.kind is Parameter.KEYWORD_ONLY and p.default is not Parameter.empty}


def of_program(name: str) -> Call:
    """Return a call of a method of a program that succeeds."""
    network = Network()
    arguments: dict[str, tuple[Any, ...]] = {
        "tensor": ("x",),
        "freeze": ("h*",),
        "thaw": ("h*",),
        "scope": ("a",),
        "input": ("z", "float32", ("n", 3)),
        "parameter": ("z", (3, 4)),
        "buffer": ("z", (3, 4)),
        "setting": ("z", 0.1),
        "constant": (1.0,),
        "state": ("h.w",),
        "lifespan": ("h.w", "training"),
        "minimize": (network.loss, prograd.sgd(0.1)),
        "fetch": ("f", network.h),
        "data": ("a.npz",),
        "training": (1,),
    }
    trained = name in ("average", "training", "compile")
    program = network.trained() if trained else network.program
    function = getattr(program, name)
    more: dict[str, dict[str, Any]] = {"average": {"decay": 0.9}, "compile": {"n": 32}}
    return arguments.get(name, ()), defaults(function) | more.get(name, {}), function


def of_run(name: str) -> Call:
    """Return a call of a method of a run, or of `Run`, that succeeds."""
    compiled = Network().trained().compile(n=32)

    def runs(*args: Any, group: None = None, **options: Any) -> prograd.Run:  # a group is made by `join` alone
        return prograd.Run(*args, **options)

    if name == "Run":
        return (compiled,), {**defaults(prograd.Run), "engine": "reference"}, runs
    if name in ("plan", "save of a program"):
        function = getattr(compiled, name.split()[0])
        return ("p.pb",) if name != "plan" else (), defaults(function), function
    run = prograd.Run(compiled, engine="reference")
    run.save("s.safetensors", force=True)
    arguments: dict[str, tuple[Any, ...]] = {
        "predict": (ROWS[0],),
        "step": (dict(zip("xy", ROWS, strict=True)),),
        "save": ("t.safetensors",),
        "load": ("s.safetensors",),
        "resume": ("s.safetensors",),
    }
    function = getattr(run, name)
    data: dict[str, Any] = {"data": ROWS, "epochs": 1} if name == "train" else {"data": ROWS}
    more = data if name in ("train", "evaluate") else defaults(function)
    return arguments.get(name, ()), more, function


def of_layer(name: str) -> Call:
    shapes: Mapping[str, tuple[Any, ...]] = {"dense": ("n", 64), "conv": ("n", 8, 8, 3), "conv_norm": ("n", 8, 8, 3)}
    x = prograd.Program("t").input("x", "float32", shapes.get(name, ("n", 5, 16)))
    function = getattr(layers, name)
    return (x, "l", 4), defaults(function), function


def of_optimizer(name: str) -> Call:
    function = getattr(prograd, name)

    def minimized(**settings: Any) -> None:
        network = Network()
        network.program.minimize(network.loss, function(**settings))

    return (), {"rate": 0.1} | defaults(function), minimized


def of_schedule(name: str) -> Call:
    function = getattr(prograd.schedules, name)
    width = {"steps": 5, "period": 5, "every": 5, "milestones": [3, 5], "rates": [0.1, 0.2, 0.3], "factor": 0.5}
    needed = {p for p, each in signature(function).parameters.items() if each.kind is Parameter.KEYWORD_ONLY}

    def minimized(*args: Any, **settings: Any) -> None:
        network = Network()
        network.program.minimize(network.loss, prograd.sgd(function(*args, **settings)))

    first = () if name == "piecewise" else (64,) if name == "noam" else (0.1,)
    return first, defaults(function) | {key: value for key, value in width.items() if key in needed}, minimized


def of_initialiser(name: str) -> Call:
    function = getattr(prograd.initialisers, name)

    def initialised(*args: Any, **choices: Any) -> None:
        prograd.Program("t").parameter("w", (4, 4), initial=function(*args, **choices))

    optional = {p.name: p.default for p in signature(function).parameters.values() if p.default is not p.empty}
    return {"constant": (1.0,), "from_file": ("w.npz",)}.get(name, ()), optional, initialised


def of_metric(name: str) -> Call:
    network = Network()
    function = getattr(prograd.metrics, name)
    args = (network.loss,) if name == "mean" else (network.h, network.y)
    return args, defaults(function), lambda *args, **more: network.program.metrics(m=function(*args, **more))


def of_callback(name: str) -> Call:
    function = getattr(prograd.callbacks, name)

    def trained(**choices: Any) -> None:
        run = prograd.Run(Network().trained().compile(n=32), engine="reference")
        run.train(data=ROWS, epochs=1, callbacks=[function(**choices)], progress=False)

    return (), defaults(function), trained


def of_data(name: str) -> Call:
    prograd.data.pack({"a": [1.0, 2, 3], "b": ["x", "y", "x"]}, "r.safetensors", force=True, classes=["b"])
    arguments: dict[str, tuple[Any, ...]] = {
        "pack": ({"a": [1.0, 2, 3]}, "q.safetensors"),
        "write": ("w.safetensors", {"a": np.ones((3, 2), np.float32)}),
        "sample": ("digits", "d.safetensors"),
        "encode": ({"a": [1.0], "b": ["x"]}, "r.safetensors"),
        "decode": ([0, 1], "b", "r.safetensors"),
    }
    function = getattr(prograd.data, name)
    return arguments[name], defaults(function), function


FUNCTIONS: list[tuple[Callable[[str], Call], str]] = [
    *((of_program, name) for name in ("tensor", "freeze", "thaw", "scope", "input", "parameter", "buffer", "setting")),
    *((of_program, name) for name in ("constant", "state", "lifespan", "minimize", "average", "fetch", "data")),
    *((of_program, name) for name in ("training", "compile")),
    *((of_run, name) for name in ("Run", "plan", "save of a program", "train", "evaluate", "predict", "step", "set")),
    *((of_run, name) for name in ("save", "load", "resume")),
    *((of_layer, name) for name in ("dense", "conv", "conv_norm", "lstm", "gru", "attention", "transformer_block")),
    *((of_optimizer, name) for name in ("sgd", "momentum", "adam", "adamw", "nadam", "rmsprop", "lion", "lamb")),
    *((of_schedule, name) for name in ("step", "multi_step", "piecewise", "cosine", "one_cycle", "noam")),
    *((of_schedule, name) for name in ("linear_warmup", "warmup_cosine", "polynomial", "inverse_time")),
    *((of_initialiser, name) for name in ("constant", "normal", "orthogonal", "variance_scaling", "from_file")),
    *((of_metric, name) for name in ("accuracy", "top_k_accuracy", "confusion_matrix", "mean")),
    *((of_callback, name) for name in ("EarlyStopping", "ReduceOnPlateau")),
    *((of_data, name) for name in ("pack", "write", "sample", "encode", "decode")),
]


@pytest.mark.usefixtures("here")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("call", "name"), FUNCTIONS, ids=[name for _, name in FUNCTIONS])
def test_no_argument_of_another_kind_ends_in_an_error_of_python(call: Callable[[str], Call], name: str):
    args, keywords, _ = call(name)
    found: list[str] = []
    for key in (*range(len(args)), *keywords):
        for value in VALUES:
            args, keywords, function = call(name)
            given = [value if i == key else x for i, x in enumerate(args)]
            by_name = {k: value if k == key else x for k, x in keywords.items()}
            try:
                made = function(*given, **by_name)
                made = list(made) if isgenerator(made) else made
            except (prograd.ProgramError, ExecutionError) as error:
                if "\n" in str(error):
                    found.append(f"{key}={value!r}: {error}")
            except Exception as error:
                found.append(f"{key}={value!r}: {type(error).__name__}: {error}")
    assert not found


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: prograd.adam(0.1, amsgrad="no"), "adam: amsgrad='no' is not True or False"),
        (lambda: prograd.adam(0.1, beta1="b"), "adam: beta1='b' is not a number"),
        (lambda: Network().program.freeze(["h*"]), "freeze: patterns=['h*'] is not text"),
        (lambda: Network().program.scope("a", reuse=0), "scope: reuse=0 is not True or False"),
        (lambda: Network().program.data({"x": 1}), "data: file={'x': 1} is not text"),
        (lambda: Network().program.data("a.npz", splits=["train"]), "data: splits=['train'] is not a mapping or None"),
        (lambda: Network().program.lora("h*", r=[2]), "lora: r=[2] is not a whole number"),
        (lambda: layers.dense(Network().x, "l", 4, bias=np.ones(4)), "is not True or False"),
        (lambda: ops.avg_pool(Network().x, window=(2,), ceil_mode="no"), "ceil_mode='no' is not True or False"),
        (lambda: of_run("Run")[2](of_run("Run")[0][0], check_nan="no"), "Run: check_nan='no' is not True or False"),
        (lambda: of_run("save")[2]("s.safetensors", force="no"), "save: force='no' is not True or False"),
        (lambda: prograd.data.encode({"a": [1]}, like=3), "encode: like=3 is not a path"),
    ],
)
@pytest.mark.usefixtures("here")
def test_the_sentence_names_the_argument_and_its_kind(call: Callable[[], Any], sentence: str):
    with pytest.raises((prograd.ProgramError, ExecutionError)) as caught:
        call()
    assert str(caught.value).endswith(sentence)


def test_errors_of_a_users_own_function_stay_as_they_are():
    network = Network()

    def decayed(step: Any) -> Any:
        return step + "a"

    with pytest.raises((TypeError, prograd.OpError), match="a"):
        network.program.minimize(network.loss, prograd.sgd(decayed))
    with pytest.raises(ZeroDivisionError):
        network.program.minimize(network.loss, prograd.sgd(0.1), clip=lambda gradients: 1 / 0)

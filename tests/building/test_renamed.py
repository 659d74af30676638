"""Former names of the public interface: each ends in one sentence that says the new one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import pytest
from subjects.small_programs import linear

import prograd
from prograd import Program, layers
from prograd_proto.renamed import RENAMED, RENAMED_ARGUMENTS

FUNCTIONS = {
    "Program.open": (lambda: Program.open("p.pb"), "Program.open is now Program.load"),
    "Program.run": (lambda: linear().run(epochs=3), "Program.run is now Program.training"),
    "Run.load_state": (
        lambda: prograd.Run(linear().compile(batch=4)).load_state("s.safetensors"),
        "Run.load_state is now Run.load",
    ),
}

ARGUMENTS = {
    ("layers.batch_norm", "decay"): "batch_norm: decay is now decay_scale",
    ("layers.conv", "bias_decay"): "conv: bias_decay is now bias_decay_scale",
    ("layers.conv_norm", "decay"): "conv_norm: decay is now norm_decay_scale",
    ("layers.dense", "bias_decay"): "dense: bias_decay is now bias_decay_scale",
    ("layers.dropout", "rate"): "dropout: rate is now ratio",
    ("layers.embedding", "numbers"): "embedding: numbers is now indices",
    ("layers.group_norm", "decay"): "group_norm: decay is now decay_scale",
    ("layers.gru", "rate"): "gru: rate is now dropout",
    ("layers.layer_norm", "decay"): "layer_norm: decay is now decay_scale",
    ("layers.lstm", "rate"): "lstm: rate is now dropout",
    ("layers.residual", "rate"): "residual: rate is now dropout",
    ("layers.transformer_block", "rate"): "transformer_block: rate is now dropout",
    ("ops.all", "axes"): "all: axes is now axis",
    ("ops.any", "axes"): "any: axes is now axis",
    ("ops.diagonal", "axes"): "diagonal(x: float32[batch, 4]): axes is now axis",
    ("ops.flip", "axes"): "flip(x: float32[batch, 4]): axes is now axis",
    ("ops.logsumexp", "axes"): "logsumexp: axes is now axis",
    ("ops.max", "axes"): "max: axes is now axis",
    ("ops.mean", "axes"): "mean: axes is now axis",
    ("ops.min", "axes"): "min: axes is now axis",
    ("ops.norm", "axes"): "norm: axes is now axis",
    ("ops.prod", "axes"): "prod: axes is now axis",
    ("ops.resize", "axes"): "resize(x: float32[batch, 4]): axes is now axis",
    ("ops.roll", "axes"): "roll(x: float32[batch, 4]): axes is now axis",
    ("ops.slice", "axes"): "slice: axes is now axis",
    ("ops.squeeze", "axes"): "squeeze(x: float32[batch, 4]): axes is now axis",
    ("ops.standard_deviation", "axes"): "standard_deviation: axes is now axis",
    ("ops.sum", "axes"): "sum: axes is now axis",
    ("ops.transpose", "axes"): "transpose: axes is now axis",
    ("ops.unslice", "axes"): "unslice: axes is now axis",
    ("ops.unsqueeze", "axes"): "unsqueeze(x: float32[batch, 4]): axes is now axis",
    ("ops.variance", "axes"): "variance: axes is now axis",
    ("ops.alpha_dropout", "rate"): "alpha_dropout: rate is now ratio",
    ("ops.dropout", "rate"): "dropout: rate is now ratio",
    ("ops.feature_dropout", "rate"): "feature_dropout(x: float32[batch, 4]): rate is now ratio",
    ("ops.gru", "rate"): "gru(x: float32[batch, 4]): rate is now dropout",
    ("ops.lstm", "rate"): "lstm(x: float32[batch, 4]): rate is now dropout",
    ("ops.rnn", "rate"): "rnn(x: float32[batch, 4]): rate is now dropout",
}

PROGRAM_FIRST = "the program is now that of the tensor, which comes first, as in layers.dense(x, 'hidden', 32)"


def test_all_former_functions_are_tried():
    assert set(FUNCTIONS) == set(RENAMED)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_former_function_says_the_new_one(name: str):
    act, sentence = FUNCTIONS[name]
    assert said(AttributeError, act) == sentence
    owner, attribute = name.split(".")
    assert said(AttributeError, lambda: getattr(getattr(prograd, owner), attribute)) == sentence
    assert attribute not in dir(getattr(prograd, owner))


@pytest.mark.parametrize("name", RENAMED)
def test_what_is_said_to_be_new_is_there(name: str):
    owner, attribute = RENAMED[name].split(".")
    assert callable(getattr(getattr(prograd, owner), attribute))


def test_all_former_arguments_are_tried():
    assert set(ARGUMENTS) == {(function, name) for function, names in RENAMED_ARGUMENTS.items() for name in names}


@pytest.mark.parametrize(("function", "name"), ARGUMENTS)
def test_a_former_argument_says_the_new_one(function: str, name: str):
    module, called = function.split(".")
    x = Program().input("x", "float32", ("batch", 4))
    found = said(prograd.OpError, lambda: getattr(getattr(prograd, module), called)(x, **{name: 1}))
    assert re.sub(r"^[\w./]+:\d+: ", "", found) == ARGUMENTS[function, name]


@pytest.mark.parametrize(("function", "name"), ARGUMENTS)
def test_a_new_argument_is_there_and_the_former_one_is_not(function: str, name: str):
    module, called = function.split(".")
    known = inspect.signature(getattr(getattr(prograd, module), called)).parameters
    assert RENAMED_ARGUMENTS[function][name] in known
    assert name not in known


def test_a_layer_that_is_given_the_program_says_where_it_comes_from():
    program = Program()
    x = program.input("x", "float32", ("batch", 4))
    for name in dir(layers):
        assert said(prograd.OpError, lambda name=name: getattr(layers, name)(program, "hidden", x, 3)) == (
            f"{name}: {PROGRAM_FIRST}"
        )


def test_a_name_that_never_was_is_no_former_one():
    assert said(AttributeError, lambda: Program.nothing) == "type object 'Program' has no attribute 'nothing'"


def said(error: type[Exception], act: Callable[[], object]) -> str:
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)
